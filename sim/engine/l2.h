// The L2 cache: whole tiles, least recently used first out, write-back.
//
// With two partitions (A100, H100, H200) half of each tile's bytes are at home in either half of the cache. An SM asks
// its own half; bytes at home in the other half are copied into the asker's half, whether it reads or writes them, so that
// what all SMs use is held twice and the capacity for it is half. At most half of a partition is dirty: beyond that the
// line that was written longest ago is written back and stays, clean. All of it was seen with flashscope_l2_probe on an
// H200 (docs/deviations.md).
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/block_table.h"

namespace flashscope {

class L2Cache {
 public:
  struct Access {
    std::int64_t hit_bytes = 0;    // read: found in this cache; write: 0
    std::int64_t miss_bytes = 0;   // fetched from HBM
    std::int64_t write_bytes = 0;  // dirty bytes pushed out to HBM by this access
    bool far = false;              // read: some of it was found in the other partition
  };
  /// Told which tile each pushed-out dirty piece belonged to.
  struct Eviction {
    std::int64_t block;
    std::int64_t bytes;
  };

  /// `capacity` in bytes, over all partitions (1 or 2). Each partition is `slices` caches, and an address hash spreads the
  /// tiles over them. Their sizes differ evenly by up to `spread_permille` either way: a real cache's sets fill one
  /// before another, which rounds the knee at the full capacity.
  L2Cache(std::int64_t capacity, int partitions, int slices = 1, int spread_permille = 0);

  /// An SM of `partition` reads or overwrites the whole block `block` of `bytes` bytes.
  Access read(std::int64_t block, std::int64_t bytes, int partition) { return read_part(block, bytes, bytes, partition); }
  /// `fill_bytes` of it must be fetched first when the block is not there (TileOp::fill_bytes).
  Access write(std::int64_t block, std::int64_t bytes, int partition, std::int64_t fill_bytes = 0) {
    return write_part(block, bytes, bytes, partition, fill_bytes);
  }
  /// `part` bytes of a block of `whole`. Parts are taken to come one after the other, each once: a block that is there
  /// in part grows by the next, and one that is there as a whole has them all.
  Access read_part(std::int64_t block, std::int64_t part, std::int64_t whole, int partition);
  Access write_part(std::int64_t block, std::int64_t part, std::int64_t whole, int partition,
                    std::int64_t fill_bytes = 0);

  std::int64_t dirty_bytes() const;
  std::int64_t resident_bytes() const;
  /// Resident at home (a copy alone does not count).
  bool holds(std::int64_t block) const;
  /// Grows whenever something is taken in, and whenever something is lost.
  std::int64_t insertions() const { return m_insertions; }
  const std::vector<Eviction>& evictions() const { return m_evictions; }  // of the last access
  /// Forgets everything; dirty bytes are dropped, not counted.
  void clear();

  /// From now on it is noted what is used.
  void begin_turnover();
  /// Everything that is held has been used since then, and each slice has dropped something to make room.
  bool is_turned_over() const { return m_unused == 0 && m_slices_kept_all == 0; }
  /// Blocks get other names: no two the same. What is held of a block stays where it lies.
  template <class F>
  void rename(F new_name) {
    BlockTable numbers;
    for (std::size_t n = 0; n < m_blocks.size(); ++n) {
      Block& held = m_blocks[n];
      if (held.is_absent()) continue;
      held.block = new_name(held.block);
      numbers.add(held.block, static_cast<std::int32_t>(n));
    }
    m_numbers = std::move(numbers);
    ++m_insertions;
  }

 private:
  /// A block of which something is held. A piece is one half of it as one partition holds it, number half · 2 +
  /// partition; the half that has the partition's number is at home there, the other is a copy.
  struct alignas(64) Block {  // a line of the processor's cache
    std::int64_t block = 0;
    std::int32_t bytes[4] = {};                      // of each piece
    std::int32_t used[4] = {-1, -1, -1, -1};         // of each piece: its place in its slice's order by use; -1: absent
    std::int32_t written[2] = {-1, -1};              // of each half at home: by write; -1: clean
    std::int16_t slice[4] = {};                      // of each piece, of all
    std::int32_t turnover = 0;                       // in which it was used last
    bool is_absent() const { return used[0] < 0 && used[1] < 0 && used[2] < 0 && used[3] < 0; }
  };
  /// Pieces in the order of their last use (or write), oldest first. A piece that is used again is put at the end, and
  /// what stood for it before is passed over: an entry counts while its piece names its place.
  struct Order {
    std::vector<std::int32_t> entries;  // Block · 4 + piece
    std::size_t first = 0;              // those before it do not count
    std::size_t room = 0;               // entries at which those that do not count are swept out
    std::int32_t count = 0;             // that count
    std::int64_t bytes = 0;
  };
  struct Slice {  // of a partition
    Order used, written;
    std::int64_t capacity = 0;
    bool kept_all = true;  // since the turnover began
  };

  std::int64_t half_bytes(std::int64_t bytes, int half) const {
    return m_num == 1 ? bytes : half == 0 ? bytes - bytes / 2 : bytes / 2;
  }
  Slice& slice_of(std::int32_t piece) {
    return m_slices[static_cast<std::size_t>(at(piece).slice[piece & 3])];
  }
  Block& at(std::int32_t piece) { return m_blocks[static_cast<std::size_t>(piece >> 2)]; }
  std::int32_t& used_place(std::int32_t piece) { return at(piece).used[piece & 3]; }
  std::int32_t& written_place(std::int32_t piece) { return at(piece).written[(piece & 3) >> 1]; }
  std::int32_t& bytes_of(std::int32_t piece) { return at(piece).bytes[piece & 3]; }

  std::int32_t open(std::int64_t block);                      // its number · 4; a new one where nothing is held
  void close(std::int32_t block);                             // forgets it if nothing is held any more
  bool touch(std::int32_t piece, std::int64_t whole);  // true when all of it is present; it becomes the newest
  void take_in(std::int32_t piece, std::int64_t part, std::int64_t whole, Access& access);
  void make_dirty(std::int32_t piece, Access& access);
  void write_back(std::int32_t piece, Access& access);  // to HBM; it stays, clean
  /// The two orders of a slice.
  enum class By { use, write };
  template <By by>
  static Order& order_of(Slice& slice) {
    return by == By::use ? slice.used : slice.written;
  }
  template <By by>
  std::int32_t& place_of(std::int32_t piece) {
    return by == By::use ? used_place(piece) : written_place(piece);
  }
  template <By by>
  bool counts(const Slice& slice, const Order& order, std::size_t entry);
  template <By by>
  void put_newest(Slice& slice, std::int32_t piece);
  template <By by>
  std::int32_t oldest(Slice& slice);  // -1: none
  template <By by>
  void sweep(Slice& slice);

  int m_num;
  int m_slices_each;  // slices of a partition
  std::vector<Slice> m_slices;
  std::vector<Block> m_blocks;
  std::vector<std::int32_t> m_free;  // of them
  BlockTable m_numbers;
  std::int64_t m_insertions = 0;
  std::int32_t m_turnover = 0;
  std::int64_t m_unused = 0, m_slices_kept_all = 0;  // blocks and slices of which is_turned_over() is not true yet
  std::int32_t m_open = -1;  // being accessed: is not forgotten meanwhile
  std::vector<Eviction> m_evictions;
};

}  // namespace flashscope
