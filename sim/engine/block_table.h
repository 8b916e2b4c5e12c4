// Which number L2 has given to a block that it holds.
//
// Blocks that are used together have neighbouring names, and what L2 holds moves on through them: a tree of pages, so
// that finding and forgetting a block look at one place and neighbours share it. Pages on which nothing is left are
// used again.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace flashscope {

class BlockTable {
 public:
  static constexpr std::int32_t kNone = -1;

  std::int32_t find(std::int64_t block) const {
    const std::size_t node = node_of(block);
    if (node >= m_nodes.size() || !m_nodes[node]) return kNone;
    const Page* page = (*m_nodes[node])[page_of(block)];
    return page ? page->numbers[place_of(block)] : kNone;
  }

  /// Of a block that has none.
  void add(std::int64_t block, std::int32_t number) {
    const std::size_t node = node_of(block);
    if (node >= m_nodes.size()) m_nodes.resize(node + 1);
    if (!m_nodes[node]) m_nodes[node] = std::make_unique<Node>();
    Page*& page = (*m_nodes[node])[page_of(block)];
    if (!page) page = empty_page();
    page->numbers[place_of(block)] = number;
    ++page->held;
  }

  /// Of a block that has one.
  void remove(std::int64_t block) {
    Page*& page = (*m_nodes[node_of(block)])[page_of(block)];
    page->numbers[place_of(block)] = kNone;
    if (--page->held > 0) return;
    m_empty.push_back(page);
    page = nullptr;
  }

 private:
  static constexpr int kPageBits = 8, kNodeBits = 12;
  struct Page {
    std::array<std::int32_t, 1 << kPageBits> numbers;
    int held = 0;
  };
  using Node = std::array<Page*, 1 << kNodeBits>;

  static std::size_t node_of(std::int64_t block) { return static_cast<std::size_t>(block >> (kPageBits + kNodeBits)); }
  static std::size_t page_of(std::int64_t block) {
    return static_cast<std::size_t>(block >> kPageBits) & ((1u << kNodeBits) - 1);
  }
  static std::size_t place_of(std::int64_t block) { return static_cast<std::size_t>(block) & ((1u << kPageBits) - 1); }

  Page* empty_page() {
    if (m_empty.empty()) {
      m_pages.push_back(std::make_unique<Page>());
      m_pages.back()->numbers.fill(kNone);
      return m_pages.back().get();
    }
    Page* page = m_empty.back();
    m_empty.pop_back();
    return page;
  }

  std::vector<std::unique_ptr<Node>> m_nodes;
  std::vector<std::unique_ptr<Page>> m_pages;
  std::vector<Page*> m_empty;  // of them
};

}  // namespace flashscope
