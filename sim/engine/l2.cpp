#include "sim/engine/l2.h"

namespace flashscope {

namespace {

/// Bits of `x` mixed so that neighbours land far apart (the finaliser of splitmix64, Steele and others, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

L2Cache::L2Cache(std::int64_t capacity, int partitions, int slices, int spread_permille)
    : m_num(partitions),
      m_slices_each(slices),
      m_slices(static_cast<std::size_t>(partitions * slices)) {
  m_table.assign(1024, {});
  const std::int64_t mean = capacity / partitions / slices;
  for (std::size_t n = 0; n < m_slices.size(); ++n) {
    const std::int64_t place = 2 * (static_cast<std::int64_t>(n) % slices) + 1 - slices;  // evenly in (-slices, slices)
    m_slices[n].capacity = mean + mean * place / slices * spread_permille / 1000;
  }
}

L2Cache::Access L2Cache::read(std::int64_t block, std::int64_t bytes, int partition) {
  Access access;
  m_evictions.clear();
  for (int half = 0; half < m_num; ++half) {
    const std::int64_t part = half_bytes(bytes, half);
    if (touch(key_of(block, half, partition))) {
      access.hit_bytes += part;
      continue;
    }
    if (half != partition && touch(key_of(block, half, half))) {  // in the other half: copied over
      access.hit_bytes += part;
      access.far = true;
    } else {
      access.miss_bytes += part;
      if (half != partition) insert(key_of(block, half, half), part, access);
    }
    insert(key_of(block, half, partition), part, access);
  }
  return access;
}

L2Cache::Access L2Cache::write(std::int64_t block, std::int64_t bytes, int partition, std::int64_t fill_bytes) {
  Access access;
  m_evictions.clear();
  for (int half = 0; half < m_num; ++half) {
    const std::int64_t home = key_of(block, half, half), part = half_bytes(bytes, half);
    if (!touch(home)) {
      access.miss_bytes += half_bytes(fill_bytes, half);
      insert(home, part, access);
    }
    make_dirty(find(home), access);
    const std::int64_t copy = key_of(block, half, partition);
    if (half != partition && !touch(copy)) insert(copy, part, access);
  }
  return access;
}

std::int64_t L2Cache::resident_bytes() const {
  std::int64_t bytes = 0;
  for (const Slice& slice : m_slices) bytes += slice.used.bytes;
  return bytes;
}

std::int64_t L2Cache::dirty_bytes() const {
  std::int64_t bytes = 0;
  for (const Slice& slice : m_slices) bytes += slice.written.bytes;
  return bytes;
}

bool L2Cache::holds(std::int64_t block) const {
  for (int half = 0; half < m_num; ++half)
    if (find(key_of(block, half, half)) < 0) return false;
  return true;
}

void L2Cache::clear() {
  for (Slice& slice : m_slices) slice.used = slice.written = {};
  m_pieces.clear();
  m_free.clear();
  m_table.assign(m_table.size(), {});
  m_used = 0;
  m_evictions.clear();
}

std::size_t L2Cache::slice_of(std::int64_t key) const {
  const std::uint64_t hash = mixed(static_cast<std::uint64_t>(key)) >> 32;
  return static_cast<std::size_t>(key % m_num * m_slices_each) +
         static_cast<std::size_t>(hash) % static_cast<std::size_t>(m_slices_each);
}

std::size_t L2Cache::slot_of(std::int64_t key) const {
  const std::size_t mask = m_table.size() - 1;
  std::size_t slot = static_cast<std::size_t>(mixed(static_cast<std::uint64_t>(key))) & mask;
  while (m_table[slot].piece >= 0 && m_table[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

std::int32_t L2Cache::find(std::int64_t key) const { return m_table[slot_of(key)].piece; }

bool L2Cache::touch(std::int64_t key) {
  const std::int32_t piece = find(key);
  if (piece < 0) return false;
  if (slice_at(at(piece)).used.newest != piece) {
    unlink(&Slice::used, &Piece::used, piece);
    link_newest(&Slice::used, &Piece::used, piece);
  }
  return true;
}

void L2Cache::insert(std::int64_t key, std::int64_t bytes, Access& access) {
  Slice& slice = m_slices[slice_of(key)];
  while (slice.used.bytes + bytes > slice.capacity && slice.used.oldest >= 0) {
    const std::int32_t victim = slice.used.oldest;
    write_back(victim, access);
    erase(victim);
  }
  if (2 * (m_used + 1) > m_table.size()) grow_table();
  std::int32_t piece;
  if (m_free.empty()) {
    piece = static_cast<std::int32_t>(m_pieces.size());
    m_pieces.emplace_back();
  } else {
    piece = m_free.back();
    m_free.pop_back();
  }
  at(piece) = {};
  at(piece).key = key;
  at(piece).bytes = bytes;
  m_table[slot_of(key)] = {key, piece};
  ++m_used;
  link_newest(&Slice::used, &Piece::used, piece);
}

void L2Cache::make_dirty(std::int32_t piece, Access& access) {
  if (at(piece).dirty) unlink(&Slice::written, &Piece::written, piece);
  at(piece).dirty = true;
  link_newest(&Slice::written, &Piece::written, piece);
  const Slice& slice = slice_at(at(piece));
  const List& written = slice.written;
  while (written.bytes > slice.capacity / 2 && written.oldest != piece) write_back(written.oldest, access);
}

void L2Cache::write_back(std::int32_t index, Access& access) {
  Piece& piece = at(index);
  if (!piece.dirty) return;
  access.write_bytes += piece.bytes;
  m_evictions.push_back({piece.key / m_num / m_num, piece.bytes});
  unlink(&Slice::written, &Piece::written, index);
  piece.dirty = false;
}

/// The piece must be clean.
void L2Cache::erase(std::int32_t index) {
  unlink(&Slice::used, &Piece::used, index);
  // Close the hole: an entry behind it moves in when its search would otherwise stop at the hole.
  const std::size_t mask = m_table.size() - 1;
  std::size_t hole = slot_of(at(index).key);
  for (std::size_t slot = (hole + 1) & mask; m_table[slot].piece >= 0; slot = (slot + 1) & mask) {
    const std::size_t home = static_cast<std::size_t>(mixed(static_cast<std::uint64_t>(m_table[slot].key))) & mask;
    if (((slot - home) & mask) < ((slot - hole) & mask)) continue;  // found from its home without passing the hole
    m_table[hole] = m_table[slot];
    hole = slot;
  }
  m_table[hole] = {};
  --m_used;
  m_free.push_back(index);
}

void L2Cache::link_newest(List Slice::*which, Piece::Link Piece::*link, std::int32_t index) {
  Piece& piece = at(index);
  List& list = slice_at(piece).*which;
  piece.*link = {-1, list.newest};
  if (list.newest >= 0) (at(list.newest).*link).newer = index;
  list.newest = index;
  if (list.oldest < 0) list.oldest = index;
  list.bytes += piece.bytes;
}

void L2Cache::unlink(List Slice::*which, Piece::Link Piece::*link, std::int32_t index) {
  Piece& piece = at(index);
  List& list = slice_at(piece).*which;
  const Piece::Link place = piece.*link;
  (place.newer >= 0 ? (at(place.newer).*link).older : list.newest) = place.older;
  (place.older >= 0 ? (at(place.older).*link).newer : list.oldest) = place.newer;
  list.bytes -= piece.bytes;
}

void L2Cache::grow_table() {
  std::vector<Entry> old(m_table.size() * 2);
  old.swap(m_table);
  for (const Entry& entry : old)
    if (entry.piece >= 0) m_table[slot_of(entry.key)] = entry;
}

}  // namespace flashscope
