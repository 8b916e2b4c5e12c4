#include "sim/engine/l2.h"

#include <algorithm>

#include "sim/engine/hash.h"

namespace flashscope {

namespace {

constexpr std::size_t kLeastRoom = 64;

}  // namespace

L2Cache::L2Cache(std::int64_t capacity, int partitions, int slices, int spread_permille)
    : m_num(partitions),
      m_slices_each(slices),
      m_slices(static_cast<std::size_t>(partitions * slices)) {
  const std::int64_t mean = capacity / partitions / slices;
  for (std::size_t n = 0; n < m_slices.size(); ++n) {
    const std::int64_t place = 2 * (static_cast<std::int64_t>(n) % slices) + 1 - slices;  // evenly in (-slices, slices)
    m_slices[n].capacity = mean + mean * place / slices * spread_permille / 1000;
  }
  clear();
}

L2Cache::Access L2Cache::read_part(std::int64_t block, std::int64_t part, std::int64_t whole, int partition) {
  Access access;
  m_evictions.clear();
  const std::int32_t first = m_open = open(block);
  for (int half = 0; half < m_num; ++half) {
    const std::int64_t bytes = half_bytes(part, half), all = half_bytes(whole, half);
    const std::int32_t piece = first + half * 2 + partition, home = first + half * 2 + half;
    if (touch(piece, all)) {
      access.hit_bytes += bytes;
      continue;
    }
    if (half != partition && touch(home, all)) {  // in the other half: copied over
      access.hit_bytes += bytes;
      access.far = true;
    } else {
      access.miss_bytes += bytes;
      if (half != partition) take_in(home, bytes, all, access);
    }
    take_in(piece, bytes, all, access);
  }
  m_open = -1;
  close(first);
  return access;
}

L2Cache::Access L2Cache::write_part(std::int64_t block, std::int64_t part, std::int64_t whole, int partition,
                                    std::int64_t fill_bytes) {
  Access access;
  m_evictions.clear();
  const std::int32_t first = m_open = open(block);
  for (int half = 0; half < m_num; ++half) {
    const std::int64_t bytes = half_bytes(part, half), all = half_bytes(whole, half);
    const std::int32_t copy = first + half * 2 + partition, home = first + half * 2 + half;
    if (!touch(home, all)) {
      access.miss_bytes += half_bytes(fill_bytes, half);
      take_in(home, bytes, all, access);
    }
    make_dirty(home, access);
    if (half != partition && !touch(copy, all)) take_in(copy, bytes, all, access);
  }
  m_open = -1;
  close(first);
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
  const std::int32_t number = m_numbers.find(block);
  if (number < 0) return false;
  const Block& held = m_blocks[static_cast<std::size_t>(number)];
  return held.used[0] >= 0 && (m_num == 1 || held.used[3] >= 0);
}

void L2Cache::clear() {
  for (Slice& slice : m_slices) slice.used = slice.written = {};
  m_blocks.clear();
  m_free.clear();
  m_numbers = {};
  m_open = -1;
  ++m_insertions;  // as good as: what was there is not
  m_evictions.clear();
  begin_turnover();
}

void L2Cache::begin_turnover() {
  ++m_turnover;
  m_unused = static_cast<std::int64_t>(m_blocks.size() - m_free.size());
  for (Slice& slice : m_slices) slice.kept_all = true;
  m_slices_kept_all = static_cast<std::int64_t>(m_slices.size());
}

std::int32_t L2Cache::open(std::int64_t block) {
  if (const std::int32_t found = m_numbers.find(block); found != BlockTable::kNone) {
    Block& held = m_blocks[static_cast<std::size_t>(found)];
    m_unused -= held.turnover != m_turnover;
    held.turnover = m_turnover;
    return found * 4;
  }
  std::int32_t number;
  if (m_free.empty()) {
    number = static_cast<std::int32_t>(m_blocks.size());
    m_blocks.emplace_back();
  } else {
    number = m_free.back();
    m_free.pop_back();
  }
  Block& held = m_blocks[static_cast<std::size_t>(number)];
  held = {};
  held.block = block;
  held.turnover = m_turnover;
  for (int half = 0; half < m_num; ++half)
    for (int partition = 0; partition < m_num; ++partition) {
      const std::uint32_t hash = static_cast<std::uint32_t>(
          mixed(static_cast<std::uint64_t>((block * m_num + half) * m_num + partition)) >> 32);
      held.slice[half * 2 + partition] = static_cast<std::int16_t>(
          partition * m_slices_each + static_cast<int>(hash % static_cast<std::uint32_t>(m_slices_each)));
    }
  m_numbers.add(block, number);
  return number * 4;
}

void L2Cache::close(std::int32_t block) {
  const Block& held = at(block);
  if (block == m_open || !held.is_absent()) return;
  m_unused -= held.turnover != m_turnover;
  m_numbers.remove(held.block);
  m_free.push_back(block >> 2);
}

/// The block's number may have been given to another: its piece is then of another slice, or at another place.
template <L2Cache::By by>
bool L2Cache::counts(const Slice& slice, const Order& order, std::size_t entry) {
  const std::int32_t piece = order.entries[entry];
  return place_of<by>(piece) == static_cast<std::int32_t>(entry) && &slice_of(piece) == &slice;
}

template <L2Cache::By by>
void L2Cache::put_newest(Slice& slice, std::int32_t piece) {
  Order& order = order_of<by>(slice);
  if (order.entries.size() >= order.room) sweep<by>(slice);
  place_of<by>(piece) = static_cast<std::int32_t>(order.entries.size());
  order.entries.push_back(piece);
}

template <L2Cache::By by>
std::int32_t L2Cache::oldest(Slice& slice) {
  Order& order = order_of<by>(slice);
  while (order.first < order.entries.size() && !counts<by>(slice, order, order.first)) ++order.first;
  return order.first < order.entries.size() ? order.entries[order.first] : -1;
}

template <L2Cache::By by>
void L2Cache::sweep(Slice& slice) {
  Order& order = order_of<by>(slice);
  std::size_t kept = 0;
  for (std::size_t entry = order.first; entry < order.entries.size(); ++entry) {
    if (!counts<by>(slice, order, entry)) continue;
    const std::int32_t piece = order.entries[entry];
    place_of<by>(piece) = static_cast<std::int32_t>(kept);
    order.entries[kept++] = piece;
  }
  order.entries.resize(kept);
  order.first = 0;
  order.room = std::max(kLeastRoom, 4 * kept);
}

bool L2Cache::touch(std::int32_t piece, std::int64_t whole) {
  const std::int32_t place = used_place(piece);
  if (place < 0 || bytes_of(piece) != whole) return false;
  Slice& slice = slice_of(piece);
  if (static_cast<std::size_t>(place) + 1 == slice.used.entries.size()) return true;
  put_newest<By::use>(slice, piece);
  return true;
}

/// `part` bytes more of a piece, which has `whole` at most.
void L2Cache::take_in(std::int32_t piece, std::int64_t part, std::int64_t whole, Access& access) {
  ++m_insertions;
  Slice& slice = slice_of(piece);
  const bool is_new = used_place(piece) < 0;
  const std::int64_t bytes = is_new ? std::min(part, whole) : std::min(part, whole - bytes_of(piece));
  if (!is_new) put_newest<By::use>(slice, piece);  // the last to make room
  while (slice.used.bytes + bytes > slice.capacity) {
    const std::int32_t victim = oldest<By::use>(slice);
    if (victim < 0 || victim == piece) break;
    write_back(victim, access);
    used_place(victim) = -1;
    m_slices_kept_all -= slice.kept_all;
    slice.kept_all = false;
    slice.used.bytes -= bytes_of(victim);
    --slice.used.count;
    close(victim & ~3);
  }
  slice.used.bytes += bytes;
  if (is_new) {
    ++slice.used.count;
    bytes_of(piece) = static_cast<std::int32_t>(bytes);
    put_newest<By::use>(slice, piece);
  } else {
    bytes_of(piece) += static_cast<std::int32_t>(bytes);
    const bool is_home = (piece & 3) >> 1 == (piece & 1);
    if (is_home && written_place(piece) >= 0) slice.written.bytes += bytes;
  }
}

void L2Cache::make_dirty(std::int32_t piece, Access& access) {
  Slice& slice = slice_of(piece);
  if (written_place(piece) < 0) {
    slice.written.bytes += bytes_of(piece);
    ++slice.written.count;
  }
  put_newest<By::write>(slice, piece);
  while (slice.written.bytes > slice.capacity / 2) {
    const std::int32_t first = oldest<By::write>(slice);
    if (first == piece) break;
    write_back(first, access);
  }
}

void L2Cache::write_back(std::int32_t piece, Access& access) {
  const int half = (piece & 3) >> 1;
  if (half != (piece & 1) || written_place(piece) < 0) return;  // a copy, or clean
  access.write_bytes += bytes_of(piece);
  m_evictions.push_back({at(piece).block, bytes_of(piece)});
  Order& written = slice_of(piece).written;
  written_place(piece) = -1;
  written.bytes -= bytes_of(piece);
  --written.count;
}

}  // namespace flashscope
