#include "sim/engine/l2.h"

#include <utility>

namespace flashscope {

L2Cache::L2Cache(std::int64_t capacity, int partitions)
    : m_num(partitions), m_capacity(capacity / partitions), m_partitions(static_cast<std::size_t>(partitions)) {
  m_table.assign(1024, -1);
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
    } else {
      access.miss_bytes += part;
      if (half != partition) insert(key_of(block, half, half), part, false, access);
    }
    insert(key_of(block, half, partition), part, false, access);
  }
  return access;
}

L2Cache::Access L2Cache::write(std::int64_t block, std::int64_t bytes, bool fill) {
  Access access;
  m_evictions.clear();
  for (int half = 0; half < m_num; ++half) {
    for (int copy = 0; copy < m_num; ++copy)
      if (copy != half) {
        const std::int32_t stale = find(key_of(block, half, copy));
        if (stale >= 0) erase(stale);
      }
    const std::int64_t home = key_of(block, half, half), part = half_bytes(bytes, half);
    if (touch(home)) {
      Piece& piece = m_pieces[static_cast<std::size_t>(find(home))];
      if (!piece.dirty) m_dirty += piece.bytes;
      piece.dirty = true;
    } else {
      if (fill) access.miss_bytes += part;
      insert(home, part, true, access);
    }
  }
  return access;
}

std::int64_t L2Cache::resident_bytes() const {
  std::int64_t bytes = 0;
  for (const Partition& partition : m_partitions) bytes += partition.bytes;
  return bytes;
}

bool L2Cache::holds(std::int64_t block) const {
  for (int half = 0; half < m_num; ++half)
    if (find(key_of(block, half, half)) < 0) return false;
  return true;
}

void L2Cache::clear() {
  for (Partition& partition : m_partitions) partition = {};
  m_pieces.clear();
  m_free.clear();
  m_table.assign(m_table.size(), -1);
  m_used = 0;
  m_dirty = 0;
  m_evictions.clear();
}

std::size_t L2Cache::slot_of(std::int64_t key) const {
  const std::size_t mask = m_table.size() - 1;
  std::size_t slot = static_cast<std::size_t>((static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ull) >> 20) & mask;
  while (m_table[slot] >= 0 && m_pieces[static_cast<std::size_t>(m_table[slot])].key != key) slot = (slot + 1) & mask;
  return slot;
}

std::int32_t L2Cache::find(std::int64_t key) const { return m_table[slot_of(key)]; }

bool L2Cache::touch(std::int64_t key) {
  const std::int32_t piece = find(key);
  if (piece < 0) return false;
  if (m_partitions[static_cast<std::size_t>(partition_of(key))].newest != piece) {
    unlink(piece);
    link_newest(piece);
  }
  return true;
}

void L2Cache::insert(std::int64_t key, std::int64_t bytes, bool dirty, Access& access) {
  Partition& partition = m_partitions[static_cast<std::size_t>(partition_of(key))];
  while (partition.bytes + bytes > m_capacity && partition.oldest >= 0) {
    const Piece& victim = m_pieces[static_cast<std::size_t>(partition.oldest)];
    if (victim.dirty) {
      access.write_bytes += victim.bytes;
      m_evictions.push_back({victim.key / m_num / m_num, victim.bytes});
    }
    erase(partition.oldest);
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
  m_pieces[static_cast<std::size_t>(piece)] = {key, -1, -1, bytes, dirty};
  m_table[slot_of(key)] = piece;
  ++m_used;
  partition.bytes += bytes;
  if (dirty) m_dirty += bytes;
  link_newest(piece);
}

void L2Cache::erase(std::int32_t index) {
  const Piece piece = m_pieces[static_cast<std::size_t>(index)];
  m_partitions[static_cast<std::size_t>(partition_of(piece.key))].bytes -= piece.bytes;
  if (piece.dirty) m_dirty -= piece.bytes;
  unlink(index);
  // Empty the slot, then put the rest of the probe run back where a search will find it.
  const std::size_t mask = m_table.size() - 1;
  std::size_t slot = slot_of(piece.key);
  m_table[slot] = -1;
  for (slot = (slot + 1) & mask; m_table[slot] >= 0; slot = (slot + 1) & mask) {
    const std::int32_t moved = std::exchange(m_table[slot], -1);
    m_table[slot_of(m_pieces[static_cast<std::size_t>(moved)].key)] = moved;
  }
  --m_used;
  m_free.push_back(index);
}

void L2Cache::link_newest(std::int32_t index) {
  Piece& piece = m_pieces[static_cast<std::size_t>(index)];
  Partition& partition = m_partitions[static_cast<std::size_t>(partition_of(piece.key))];
  piece.newer = -1;
  piece.older = partition.newest;
  if (partition.newest >= 0) m_pieces[static_cast<std::size_t>(partition.newest)].newer = index;
  partition.newest = index;
  if (partition.oldest < 0) partition.oldest = index;
}

void L2Cache::unlink(std::int32_t index) {
  const Piece& piece = m_pieces[static_cast<std::size_t>(index)];
  Partition& partition = m_partitions[static_cast<std::size_t>(partition_of(piece.key))];
  (piece.newer >= 0 ? m_pieces[static_cast<std::size_t>(piece.newer)].older : partition.newest) = piece.older;
  (piece.older >= 0 ? m_pieces[static_cast<std::size_t>(piece.older)].newer : partition.oldest) = piece.newer;
}

void L2Cache::grow_table() {
  std::vector<std::int32_t> old(m_table.size() * 2, -1);
  old.swap(m_table);
  for (std::int32_t piece : old)
    if (piece >= 0) m_table[slot_of(m_pieces[static_cast<std::size_t>(piece)].key)] = piece;
}

}  // namespace flashscope
