// The cache on its own: small, so that every hit and miss can be told by hand.
#include "sim/engine/l2.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <random>

namespace flashscope {
namespace {

constexpr std::int64_t kTile = 1024;
enum { A, B, C };

struct Counts {
  int hits = 0, misses = 0;
};
Counts access(L2Cache& cache, std::initializer_list<int> tiles) {
  Counts counts;
  for (int tile : tiles) {
    const L2Cache::Access a = cache.read(tile, kTile, 0);
    CHECK(a.hit_bytes + a.miss_bytes == kTile);
    (a.miss_bytes > 0 ? counts.misses : counts.hits) += 1;
  }
  return counts;
}

TEST_CASE("hits and misses of a cache that holds two tiles") {
  SUBCASE("A B A") {
    L2Cache cache(2 * kTile, 1);
    const Counts counts = access(cache, {A, B, A});
    CHECK(counts.misses == 2);
    CHECK(counts.hits == 1);
  }
  SUBCASE("A B C A misses four times under LRU") {
    L2Cache cache(2 * kTile, 1);
    CHECK(access(cache, {A, B, C, A}).misses == 4);
  }
  SUBCASE("a first access misses, a second hits") {
    L2Cache cache(2 * kTile, 1);
    CHECK(access(cache, {A}).misses == 1);
    CHECK(access(cache, {A}).hits == 1);
  }
  SUBCASE("a hit makes a tile the newest: A B A C keeps A") {
    L2Cache cache(2 * kTile, 1);
    access(cache, {A, B, A, C});
    CHECK(cache.holds(A));
    CHECK(!cache.holds(B));
  }
}

TEST_CASE("written tiles are pushed out as HBM writes, once, and stay dirty until then") {
  L2Cache cache(2 * kTile, 1);
  cache.write(A, kTile, 0);
  cache.write(A, kTile, 0);
  CHECK(cache.dirty_bytes() == kTile);
  CHECK(cache.read(A, kTile, 0).hit_bytes == kTile);
  CHECK(cache.read(B, kTile, 0).write_bytes == 0);
  const L2Cache::Access third = cache.read(C, kTile, 0);
  CHECK(third.write_bytes == kTile);
  REQUIRE(cache.evictions().size() == 1);
  CHECK(cache.evictions()[0].block == A);
  CHECK(cache.dirty_bytes() == 0);
}

TEST_CASE("two partitions: a tile read from both sides is held twice, fetched once") {
  L2Cache cache(4 * kTile, 2);
  CHECK(cache.read(A, kTile, 0).miss_bytes == kTile);
  CHECK(cache.read(A, kTile, 1).miss_bytes == 0);
  CHECK(cache.read(A, kTile, 1).hit_bytes == kTile);
  CHECK(cache.resident_bytes() == 2 * kTile);
  cache.write(A, kTile, 0);  // the copies are brought up to date where they lie
  CHECK(cache.resident_bytes() == 2 * kTile);
  CHECK(cache.read(A, kTile, 1).hit_bytes == kTile);
}

TEST_CASE("two partitions: what is written lies at home and in the writer's half") {
  L2Cache cache(8 * kTile, 2);
  cache.write(A, kTile, 0);
  CHECK(cache.resident_bytes() == kTile + kTile / 2);
  CHECK(cache.dirty_bytes() == kTile);
  const L2Cache::Access other = cache.read(A, kTile, 1);
  CHECK(other.hit_bytes == kTile);
  CHECK(other.far);
  CHECK(cache.resident_bytes() == 2 * kTile);
}

TEST_CASE("slices of different sizes hold the capacity between them") {
  for (int spread : {0, 100, 173}) {
    L2Cache cache(64 * 1024 * kTile, 2, 32, spread);
    for (int tile = 0; tile < 4 * 64 * 1024; ++tile) cache.read(tile, kTile, tile % 2);
    CHECK(cache.resident_bytes() > 64 * 1023 * kTile);
    CHECK(cache.resident_bytes() <= 64 * 1024 * kTile);
  }
}

TEST_CASE("half of the capacity may be dirty: beyond that the oldest write goes to HBM, and its tile stays") {
  L2Cache cache(4 * kTile, 1);
  cache.write(A, kTile, 0);
  cache.write(B, kTile, 0);
  const L2Cache::Access third = cache.write(C, kTile, 0);
  CHECK(third.write_bytes == kTile);
  REQUIRE(cache.evictions().size() == 1);
  CHECK(cache.evictions()[0].block == A);
  CHECK(cache.dirty_bytes() == 2 * kTile);
  CHECK(cache.read(A, kTile, 0).hit_bytes == kTile);
}

TEST_CASE("a store that starts inside a sector fetches that sector, once") {
  L2Cache cache(4 * kTile, 1);
  CHECK(cache.write(A, kTile, 0, 64).miss_bytes == 64);
  CHECK(cache.write(A, kTile, 0, 64).miss_bytes == 0);
}

TEST_CASE("turned over: all that is held has been used since, and something was dropped") {
  L2Cache cache(2 * kTile, 1);
  access(cache, {A, B});
  cache.begin_turnover();
  access(cache, {A});
  CHECK(!cache.is_turned_over());
  access(cache, {B});
  CHECK(!cache.is_turned_over());  // nothing was dropped: there may be room
  access(cache, {C});
  CHECK(cache.is_turned_over());
  cache.begin_turnover();
  access(cache, {A});  // B is dropped, C has not been used
  CHECK(!cache.is_turned_over());
}

TEST_CASE("tiles with other names keep their place in the order, and what is dirty") {
  L2Cache cache(2 * kTile, 1);
  access(cache, {A});
  cache.write(B, kTile, 0);
  cache.rename([](std::int64_t tile) { return tile + 1000; });
  CHECK(!cache.holds(A));
  CHECK(cache.holds(A + 1000));
  CHECK(cache.dirty_bytes() == kTile);
  CHECK(access(cache, {C}).misses == 1);
  CHECK(!cache.holds(A + 1000));
  access(cache, {A});
  REQUIRE(cache.evictions().size() == 1);
  CHECK(cache.evictions()[0].block == B + 1000);
}

TEST_CASE("random accesses agree with a plain list by use and by write") {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const int capacity = 2 + static_cast<int>(random() % 40);
    L2Cache cache(capacity * kTile, 1);
    std::list<std::int64_t> used, written;  // newest first
    for (int step = 0; step < 3000; ++step) {
      const std::int64_t tile = random() % 60;
      const bool write = random() % 3 == 0;
      const bool present = std::find(used.begin(), used.end(), tile) != used.end();
      const L2Cache::Access a = write ? cache.write(tile, kTile, 0) : cache.read(tile, kTile, 0);
      if (!write) REQUIRE((a.hit_bytes == kTile) == present);
      int to_hbm = 0;
      used.remove(tile);
      if (static_cast<int>(used.size()) == capacity) {
        if (std::find(written.begin(), written.end(), used.back()) != written.end()) ++to_hbm;
        written.remove(used.back());
        used.pop_back();
      }
      used.push_front(tile);
      if (write) {
        written.remove(tile);
        written.push_front(tile);
        while (static_cast<int>(written.size()) > capacity / 2 && written.size() > 1) {
          written.pop_back();
          ++to_hbm;
        }
      }
      REQUIRE(a.write_bytes == to_hbm * kTile);
    }
    CHECK(cache.dirty_bytes() == static_cast<std::int64_t>(written.size()) * kTile);
  }
}

}  // namespace
}  // namespace flashscope
