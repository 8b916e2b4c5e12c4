// The L2 cache: whole tiles, least recently used first out, write-back.
//
// With two partitions (A100, H100, H200) half of each tile's bytes are at home in either half of the cache. An SM asks
// its own half; bytes at home in the other half are copied into the asker's half, whether it reads or writes them, so that
// what all SMs use is held twice and the capacity for it is half. At most half of a partition is dirty: beyond that the
// line that was written longest ago is written back and stays, clean. All of it was seen with flashscope_l2_probe on an
// H200 (docs/deviations.md).
#pragma once
#include <cstdint>
#include <vector>

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
  Access read(std::int64_t block, std::int64_t bytes, int partition);
  /// `fill_bytes` of it must be fetched first when the block is not there (TileOp::fill_bytes).
  Access write(std::int64_t block, std::int64_t bytes, int partition, std::int64_t fill_bytes = 0);

  std::int64_t dirty_bytes() const;
  std::int64_t resident_bytes() const;
  /// Resident at home (a copy alone does not count).
  bool holds(std::int64_t block) const;
  const std::vector<Eviction>& evictions() const { return m_evictions; }  // of the last access
  /// Forgets everything; dirty bytes are dropped, not counted.
  void clear();

 private:
  // A piece is one half of a block as one partition holds it: key = (block · partitions + half) · partitions +
  // partition.
  struct Piece {
    std::int64_t key = 0;
    std::int64_t bytes = 0;
    bool dirty = false;
    struct Link {
      std::int32_t newer = -1, older = -1;
    } used, written;  // places in the slice's lists, by last use and, if dirty, by last write
  };
  struct List {
    std::int32_t newest = -1, oldest = -1;
    std::int64_t bytes = 0;
  };
  struct Slice {  // of a partition
    List used, written;
    std::int64_t capacity = 0;
  };

  std::size_t slice_of(std::int64_t key) const;
  std::int64_t key_of(std::int64_t block, int half, int partition) const {
    return (block * m_num + half) * m_num + partition;
  }
  std::int64_t half_bytes(std::int64_t bytes, int half) const {
    return bytes / m_num + (half == 0 ? bytes % m_num : 0);
  }

  std::size_t slot_of(std::int64_t key) const;  // where the key is, or would go, in the hash table
  std::int32_t find(std::int64_t key) const;
  bool touch(std::int64_t key);  // true when present; it becomes the newest
  void insert(std::int64_t key, std::int64_t bytes, Access& access);
  void make_dirty(std::int32_t piece, Access& access);
  void write_back(std::int32_t piece, Access& access);  // to HBM; it stays, clean
  void erase(std::int32_t piece);
  void link_newest(List Slice::*list, Piece::Link Piece::*link, std::int32_t piece);
  void unlink(List Slice::*list, Piece::Link Piece::*link, std::int32_t piece);
  Piece& at(std::int32_t piece) { return m_pieces[static_cast<std::size_t>(piece)]; }
  Slice& slice_at(const Piece& piece) { return m_slices[slice_of(piece.key)]; }
  void grow_table();

  int m_num;
  int m_slices_each;        // slices of a partition
  std::vector<Slice> m_slices;
  std::vector<Piece> m_pieces;
  std::vector<std::int32_t> m_free;
  /// Open addressing, linear probing. The key stands beside the piece's number: a search looks at the table alone.
  struct Entry {
    std::int64_t key = 0;
    std::int32_t piece = -1;  // -1: empty
  };
  std::vector<Entry> m_table;
  std::size_t m_used = 0;
  std::vector<Eviction> m_evictions;
};

}  // namespace flashscope
