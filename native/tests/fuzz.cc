// SPDX-License-Identifier: Apache-2.0
// Runs the whole core (index, tables, events, stats, nesting, writers) over profiles, over mutants of them, over bytes that become others between
// and during its passes, and with every allocation and every write failing once. Built with sanitizers: any fault ends it, and leaves the
// bytes in finding.pb (and finding.after.pb, what they became).
//
//   fuzz MUTANTS SEED FILE...      a file.after.pb beside file.pb is what that one becomes
#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "mutate.h"
#include "outpace.h"

namespace {

std::atomic<int64_t> allocations_left{INT64_MAX}, writes_left{INT64_MAX};

}  // namespace

void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return --allocations_left < 0 ? nullptr : std::malloc(size == 0 ? 1 : size); }
void* operator new(std::size_t size) {
  if (void* made = operator new(size, std::nothrow)) return made;
  throw std::bad_alloc();
}
void operator delete(void* made) noexcept { std::free(made); }
void operator delete(void* made, std::size_t) noexcept { std::free(made); }

// The linker gives every call of write() here (--wrap).
extern "C" ssize_t __real_write(int fd, const void* data, size_t size);
extern "C" ssize_t __wrap_write(int fd, const void* data, size_t size) {
  const int64_t left = --writes_left;
  if (left < 0) {
    errno = ENOSPC;
    return -1;
  }
  if (left % 3 == 1) {
    errno = EINTR;
    return -1;
  }
  return __real_write(fd, data, left % 3 == 2 && size > 1 ? size / 2 : size);  // a part is written too
}

namespace {

using outpace_test::Bytes;
using outpace_test::Chance;

constexpr uint64_t kBudget = 64 << 20;
constexpr int kThinned = 15;  // small seeds made of each file, beside the whole one
constexpr time_t kLongest = 20;  // seconds of processor time for one mutant

void require(bool holds) {
  if (!holds) std::abort();
}

// Every text that a table names lies within the data.
void require_inside(const std::vector<uint64_t>& at, const std::vector<uint32_t>& length, uint64_t size) {
  for (size_t i = 0; i < at.size(); ++i) require(length[i] == 0 || (at[i] <= size && length[i] <= size - at[i]));
}

// The core over one profile. `between` is called before every pass that reads the bytes; a status other than OX_DONE ends a pass.
class Exercise {
 public:
  Exercise(const ox_source& source, int threads, std::function<void()> between)
      : source_(source), size_(source.size), threads_(threads), between_(std::move(between)) {}
  ~Exercise() {
    ox_close(space_);
  }
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;

  // The first status that is not OX_DONE; `events` then means nothing.
  int32_t run(uint64_t& events) {
    if (const int32_t status = ox_open(&source_, static_cast<int32_t>(source_.block % 2), kBudget, threads_, &space_)) return status;
    if (const int32_t status = window()) return status;
    ox_get_sizes(space_, &sizes_);
    merge_names();
    events = sizes_.events;
    name_.resize(events);
    start_.resize(events);
    duration_.resize(events);
    tables();
    between_();
    if (const int32_t status = ox_events(space_, threads_, name_.data(), start_.data(), duration_.data())) return status;
    for (const int32_t name : name_) require(name >= 0 && static_cast<uint64_t>(name) <= sizes_.event_names);
    ox_get_sizes(space_, &sizes_);
    require(sizes_.nameless_stats == 0 || sizes_.damages_total > 0);
    std::vector<uint64_t> repeated(sizes_.stat_names);
    ox_repeated(space_, repeated.data());
    std::vector<int64_t> occurrences(sizes_.aggregated);
    std::vector<uint64_t> aggregated(sizes_.aggregated);
    ox_aggregated(space_, aggregated.data(), occurrences.data());
    for (const uint64_t row : aggregated) require(row < events);
    if (const int32_t status = nest()) return status;
    between_();
    if (const int32_t status = take_stats()) return status;
    between_();
    return write();
  }

 private:
  // The middle half of the time of two in three: what lies in it, or reaches into it.
  int32_t window() {
    if (size_ % 3 == 0) return OX_DONE;
    int64_t first = 0, last = 0;
    between_();
    if (const int32_t status = ox_window(space_, INT64_MIN, INT64_MAX, 0, threads_, &first, &last)) return status;
    require(first <= last);
    const int64_t quarter = last / 4 - first / 4;
    between_();
    return ox_window(space_, first + quarter, last - quarter, static_cast<int32_t>(size_ % 3 - 1), threads_, &first, &last);
  }

  // In one of two profiles some stat names are as the one before.
  void merge_names() {
    if (size_ % 2 == 0) return;
    std::vector<uint32_t> plane(sizes_.stat_names), length(sizes_.stat_names);
    std::vector<int64_t> id(sizes_.stat_names);
    std::vector<uint64_t> at(sizes_.stat_names);
    ox_stat_names(space_, plane.data(), id.data(), at.data(), length.data());
    std::vector<int32_t> row(sizes_.stat_names);
    for (size_t i = 0; i < row.size(); ++i) row[i] = i % 5 == 4 && plane[i] == plane[i - 1] ? row[i - 1] : static_cast<int32_t>(i);
    require(ox_merge_stat_names(space_, row.data()) == OX_DONE);
  }

  void tables() {
    const auto table = [&](uint64_t rows, auto copy) {
      std::vector<uint32_t> plane(rows), length(rows), display_length(rows);
      std::vector<int64_t> id(rows);
      std::vector<uint64_t> at(rows), display_at(rows);
      std::vector<int32_t> owner(rows), stat_name(rows);
      std::vector<uint8_t> kind(rows);
      copy(plane, id, at, length, display_at, display_length, owner, stat_name, kind);
      require_inside(display_at, display_length, size_);
      for (size_t i = 0; i < rows; ++i) {
        require(plane[i] == 0 || plane[i] < sizes_.planes);  // tables without a plane column stay at 0
        const bool number = kind[i] != OX_STAT_NONE && kind[i] != OX_STAT_TEXT && kind[i] != OX_STAT_BYTES;  // of the stats of owners
        require(number || length[i] == 0 || (at[i] <= size_ && length[i] <= size_ - at[i]));
      }
    };
    table(sizes_.planes, [&](auto&, auto& id, auto& at, auto& length, auto&, auto&, auto&, auto&, auto&) {
      std::vector<uint32_t> first(sizes_.planes);
      ox_planes(space_, id.data(), at.data(), length.data(), first.data());
    });
    table(sizes_.event_names, [&](auto& plane, auto& id, auto& at, auto& length, auto& shown_at, auto& shown, auto&, auto&, auto&) {
      ox_event_names(space_, plane.data(), id.data(), at.data(), length.data(), shown_at.data(), shown.data());
    });
    table(sizes_.stat_names, [&](auto& plane, auto& id, auto& at, auto& length, auto&, auto&, auto&, auto&, auto&) {
      ox_stat_names(space_, plane.data(), id.data(), at.data(), length.data());
    });
    table(sizes_.owner_stats, [&](auto& plane, auto&, auto& at, auto& length, auto&, auto&, auto& owner, auto& stat_name, auto& kind) {
      ox_owner_stats(space_, plane.data(), owner.data(), stat_name.data(), kind.data(), at.data(), length.data());
    });
    table(sizes_.strings, [&](auto&, auto&, auto& at, auto& length, auto&, auto&, auto&, auto&, auto& field) {
      ox_strings(space_, field.data(), at.data(), length.data());
    });
    std::vector<uint64_t> at(sizes_.damages), lost(sizes_.damages);
    std::vector<int32_t> plane(sizes_.damages);
    std::vector<uint8_t> why(sizes_.damages);
    ox_damages(space_, at.data(), lost.data(), plane.data(), why.data());
  }

  std::vector<uint64_t> first_events() {
    std::vector<uint64_t> first(sizes_.lines + 1), at(sizes_.lines);
    std::vector<uint32_t> plane(sizes_.lines), length(sizes_.lines);
    std::vector<int64_t> id(sizes_.lines), stamp(sizes_.lines);
    ox_lines(space_, plane.data(), id.data(), stamp.data(), at.data(), length.data(), first.data());
    require_inside(at, length, size_);
    return first;
  }

  int32_t nest() {
    const uint64_t n = sizes_.events;
    const std::vector<uint64_t> first = first_events();
    std::vector<int64_t> self(n);
    std::vector<int32_t> parent(n), subtree_end(n), group(n, -1);
    if (const int32_t status =
            ox_nest(sizes_.lines, first.data(), start_.data(), duration_.data(), nullptr, threads_, parent.data(), subtree_end.data(), self.data())) {
      return status;
    }
    const int32_t root = 0;
    return n == 0 ? OX_DONE : ox_spread(n, subtree_end.data(), 0, nullptr, nullptr, 1, &root, &root, group.data());
  }

  // Those of all names together, and of a few each by itself.
  int32_t take_stats() {
    std::vector<int32_t> column(sizes_.stat_names + 1, 0);
    if (const int32_t status = take_columns(column, 1)) return status;
    constexpr size_t kFew = 8;
    for (size_t i = 0; i < column.size(); ++i) column[i] = i < kFew ? static_cast<int32_t>(i) : -1;
    return take_columns(column, kFew);
  }

  int32_t take_columns(const std::vector<int32_t>& column, uint32_t columns) {
    std::vector<uint64_t> bounds(columns + 1);
    if (const int32_t status = ox_stat_bounds(space_, column.data(), columns, bounds.data())) return status;
    const uint64_t count = bounds.back();
    std::vector<int32_t> row(count);
    std::vector<uint8_t> kind(count);
    std::vector<uint64_t> value(count);
    std::vector<uint32_t> length(count);
    between_();
    if (const int32_t status = ox_stats(space_, column.data(), columns, threads_, row.data(), kind.data(), value.data(), length.data())) return status;
    for (uint64_t i = 0; i < count; ++i) {
      const bool text = kind[i] == OX_STAT_TEXT || kind[i] == OX_STAT_BYTES;
      require(!text || (value[i] <= size_ && length[i] <= size_ - value[i]));
      require(row[i] >= 0 && static_cast<uint64_t>(row[i]) < sizes_.events);
    }
    for (uint32_t c = 0; c < columns; ++c) {
      for (uint64_t i = bounds[c]; i + 1 < bounds[c + 1]; ++i) require(columns == 1 || row[i] < row[i + 1]);  // a name has one value a row
    }
    return OX_DONE;
  }

  // All events as a trace file, in both formats, with all arguments, and arrows between whatever events there are.
  int32_t write() {
    static const int nowhere = open("/dev/null", O_WRONLY);
    const std::vector<uint8_t> wanted(sizes_.stat_names + 1, 1);
    const std::vector<int32_t> flow_row{0, 0, 1};
    const std::vector<uint64_t> flow_id{1, 2, 1};
    const std::vector<uint8_t> flow_ends{0, 0, 1};
    const std::vector<uint64_t> first = first_events();
    for (const int32_t format : {OX_FORMAT_PERFETTO, OX_FORMAT_JSON}) {
      ox_export* opened = nullptr;
      if (const int32_t status = ox_export_open(nowhere, format, &opened)) return status;
      const std::unique_ptr<ox_export, void (*)(ox_export*)> out(opened, ox_export_close);
      int32_t status = ox_export_track(opened, 1, 0, OX_TRACK_SECTION, 0, "section", 7, nullptr, 0), error = 0;
      uint64_t written = 0;
      for (uint64_t i = 0; i < sizes_.lines && status == OX_DONE; ++i) {
        status = ox_export_track(opened, i + 2, 1, OX_TRACK_SLICES, 0, "\xff\"", 2, "line", 4);
        const uint64_t at = first[i];
        const ox_line_slices line{space_, name_.data() + at, start_.data() + at, duration_.data() + at, nullptr, wanted.data(), 1000, i, i + 2, 3,
                                  flow_row.data(), flow_id.data(), flow_ends.data()};
        uint64_t slices = 0;
        if (status == OX_DONE) status = ox_export_line(opened, &line, &slices);
        written += slices;
      }
      if (status == OX_DONE) status = ox_export_finish(opened, &error);
      if (status != OX_DONE) return status;
      require(written == sizes_.events);
      if (error != 0) return OX_FAILED;
    }
    return OX_DONE;
  }

  ox_source source_;
  uint64_t size_;
  int threads_;
  std::function<void()> between_;
  ox_space* space_ = nullptr;
  ox_sizes sizes_{};
  std::vector<int32_t> name_;
  std::vector<int64_t> start_, duration_;
};

// What is being looked at, for the file that a fault leaves.
const Bytes *now = nullptr, *later = nullptr;

void keep(const char* name, const Bytes* data) {
  if (data == nullptr) return;
  if (std::FILE* file = std::fopen(name, "wb")) {
    std::fwrite(data->data(), 1, data->size(), file);
    std::fclose(file);
  }
}

void keep_finding() {
  allocations_left = writes_left = INT64_MAX;
  keep("finding.pb", now);
  keep("finding.after.pb", later);
}

void too_slow(int) {
  std::fprintf(stderr, "one mutant takes longer than %d s\n", static_cast<int>(kLongest));
  std::abort();
}

// Begin to measure the time of a mutant; not by the clock, since other programs may hold the processor.
void watch() {
  const itimerval limit{{0, 0}, {kLongest, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

ox_source in_memory(const Bytes& data) { return {data.data(), data.size(), -1, 0}; }

// The one file of this program, with these bytes in it now; read by blocks of up to so many bytes.
ox_source in_file(const Bytes& data, uint64_t block) {
  static const int file = memfd_create("profile", 0);
  require(ftruncate(file, 0) == 0 && pwrite(file, data.data(), data.size(), 0) == static_cast<ssize_t>(data.size()));
  return {nullptr, data.size(), file, block};
}

// Bytes that stay: they are decoded, or too much for the budget; the same from a file.
uint64_t exercise(const Bytes& data, int threads, Chance& chance) {
  uint64_t events = 0, again = 0;
  now = &data;
  later = nullptr;
  watch();
  const int32_t status = Exercise(in_memory(data), threads, [] {}).run(events);
  require(status == OX_DONE || status == OX_TOO_LARGE);
  watch();
  require(Exercise(in_file(data, chance.below(300)), threads, [] {}).run(again) == status && (status != OX_DONE || again == events));
  return status == OX_DONE ? events : 0;
}

// Bytes that become others, before one of the passes, or while all of them run.
void exercise_change(const Bytes& before, const Bytes& after, Chance& chance) {
  Bytes data = before;
  uint64_t events = 0, passes = chance.below(7);
  now = &before;
  later = &after;
  watch();
  if (passes < 6) {
    const bool file = chance.one_in(2);
    const auto flip = [&] {
      if (file) in_file(after, 0);  // which may also be shorter
      else std::copy_n(after.begin(), std::min(after.size(), data.size()), data.begin());
    };
    Exercise(file ? in_file(data, chance.below(300)) : in_memory(data), 2, [&] { if (passes-- == 0) flip(); }).run(events);
    return;
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    auto* bytes = static_cast<volatile uint8_t*>(data.data());
    for (uint64_t i = 0; !stop && !data.empty(); ++i) {
      const uint64_t at = i * 7919 % data.size();
      bytes[at] = (i / data.size()) % 2 == 0 && at < after.size() ? after[at] : before[at];
    }
  });
  Exercise(in_memory(data), 2, [] {}).run(events);
  stop = true;
  writer.join();
}

// Every allocation fails once, then every write: a status says so, and nothing is left behind (the leak sanitizer looks at the end).
uint64_t exercise_failures(const Bytes& data, int threads) {
  uint64_t events = 0, failed = 0;
  now = &data;
  later = nullptr;
  for (std::atomic<int64_t>* left : {&allocations_left, &writes_left}) {
    for (int64_t n = 0;; ++n) {
      watch();
      int32_t status = OX_DONE;
      try {
        Exercise run(n % 2 == 0 ? in_memory(data) : in_file(data, 64), threads, [] {});
        *left = n;
        status = run.run(events);
      } catch (const std::bad_alloc&) {  // one of this program's own
        status = OX_NO_MEMORY;
      }
      const bool reached = left->exchange(INT64_MAX) < 0;
      require(reached || status == OX_DONE);
      if (!reached) break;
      ++failed;
    }
  }
  return failed;
}

Bytes content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Bytes whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  whole.shrink_to_fit();
  return whole;
}

Bytes mutant(const std::vector<outpace_test::Field>& fields, Chance& chance) { return outpace_test::Mutator(fields, chance).mutant(); }

}  // namespace

int main(int count, char** arguments) {
  const uint64_t mutants = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100;
  Chance chance{count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1};
  __sanitizer_set_death_callback(keep_finding);
  std::signal(SIGVTALRM, too_slow);
  std::vector<std::vector<outpace_test::Field>> seeds;
  uint64_t events = 0, failures = 0, changed = 0;
  for (int f = 3; f < count; ++f) {
    const std::string path = arguments[f], end = ".after.pb";
    if (path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0) continue;
    const Bytes whole = content(path);
    events += exercise(whole, 2, chance);
    if (const Bytes after = content(path.substr(0, path.size() - 3) + end); !after.empty()) {
      for (int i = 0; i < 50; ++i) exercise_change(whole, after, chance);
    }
    if (whole.size() < 20000) failures += exercise_failures(whole, 1) + exercise_failures(whole, 4);
    std::vector<outpace_test::Field> fields;
    if (!outpace_test::parse({whole.data(), whole.data() + whole.size()}, fields)) continue;
    outpace_test::add_texts(fields, chance);
    Bytes with_texts;
    outpace_test::write(fields, with_texts);
    events += exercise(with_texts, 2, chance);
    if (with_texts.size() < 20000) failures += exercise_failures(with_texts, 1);
    for (int i = 0; i < kThinned; ++i) {
      seeds.push_back(fields);
      outpace_test::thin(seeds.back(), 1 + chance.below(12), chance);
    }
    seeds.push_back(std::move(fields));
  }
  for (uint64_t i = 0; i < mutants && !seeds.empty(); ++i) {
    const auto& seed = seeds[i % seeds.size()];
    const Bytes data = mutant(seed, chance);
    events += exercise(data, 1 + static_cast<int>(i % 2), chance);
    if (!chance.one_in(3)) continue;
    exercise_change(data, mutant(seed, chance), chance);
    ++changed;
  }
  std::printf("%llu mutants and %llu that changed, %llu events decoded, %llu failed calls, no fault\n", static_cast<unsigned long long>(mutants),
              static_cast<unsigned long long>(changed), static_cast<unsigned long long>(events), static_cast<unsigned long long>(failures));
  return 0;
}
