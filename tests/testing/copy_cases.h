// The shapes on which both forms of kernels::CopySegments are tested: boundary sizes, every reason
// for the narrow path, gather and scatter.
#ifndef KVTIER_TESTS_TESTING_COPY_CASES_H_
#define KVTIER_TESTS_TESTING_COPY_CASES_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/copy_segments.h"

namespace kvtier::testing {

// Segment i of `segments` reads at source_offset + i * source_step of one buffer
// and writes at destination_offset + i * destination_step of another.
struct CopyCase {
  uint32_t segments = 1;
  uint32_t runs = 1;
  uint64_t run_bytes = 0;
  uint64_t source_stride = 0;
  uint64_t destination_stride = 0;
  uint64_t source_offset = 0;
  uint64_t destination_offset = 0;
  kernels::OuterAxes outer{};

  uint64_t segment_bytes() const { return runs * run_bytes * outer.count(); }
  uint64_t source_step() const {
    uint64_t step = runs * source_stride + 64;
    for (const kernels::CopyAxis& axis : outer.axes) step += axis.count * axis.source_stride;
    return step;
  }
  uint64_t destination_step() const {
    uint64_t step = runs * destination_stride + 64;
    for (const kernels::CopyAxis& axis : outer.axes) step += axis.count * axis.destination_stride;
    return step;
  }
  uint64_t source_bytes() const { return source_offset + segments * source_step(); }
  uint64_t destination_bytes() const { return destination_offset + segments * destination_step(); }

  std::vector<kernels::StridedSegment> Segments(const std::byte* source,
                                                std::byte* destination) const {
    std::vector<kernels::StridedSegment> list;
    for (uint32_t i = 0; i < segments; ++i) {
      list.push_back({.source = source + source_offset + i * source_step(),
                      .destination = destination + destination_offset + i * destination_step(),
                      .run_bytes = run_bytes,
                      .source_stride = source_stride,
                      .destination_stride = destination_stride,
                      .runs = runs});
    }
    return list;
  }
};

inline std::ostream& operator<<(std::ostream& out, const CopyCase& shape) {
  out << shape.segments << " segments, " << shape.runs << " runs of " << shape.run_bytes
      << " bytes, strides " << shape.source_stride << " and " << shape.destination_stride
      << ", offsets " << shape.source_offset << " and " << shape.destination_offset;
  for (const kernels::CopyAxis& axis : shape.outer.axes) {
    out << ", " << axis.count << " times by " << axis.source_stride << " and "
        << axis.destination_stride;
  }
  return out;
}

inline std::vector<CopyCase> CopyCases() {
  std::vector<CopyCase> cases;
  // Sizes around a word of the wide path, a warp's slice (2 KiB) and a page.
  for (const uint64_t bytes : {0, 1, 15, 16, 17, 512, 2047, 2048, 2049, 4096, 65536, 65537}) {
    const uint64_t packed = bytes;
    const uint64_t paged = (bytes + 15) / 16 * 16 + 48;
    cases.push_back({.run_bytes = bytes, .source_stride = bytes, .destination_stride = bytes});
    // Gather: paged source, packed destination; then scatter, the other way.
    cases.push_back({.segments = 5,
                     .runs = 7,
                     .run_bytes = bytes,
                     .source_stride = paged,
                     .destination_stride = packed});
    cases.push_back({.segments = 5,
                     .runs = 7,
                     .run_bytes = bytes,
                     .source_stride = packed,
                     .destination_stride = paged});
  }
  // Cases in which one address is not a multiple of 16.
  for (const uint64_t off : {1, 8, 15}) {
    CopyCase aligned = {.segments = 3,
                        .runs = 4,
                        .run_bytes = 4096,
                        .source_stride = 8192,
                        .destination_stride = 4096};
    cases.push_back(aligned);
    cases.back().source_offset = off;
    cases.push_back(aligned);
    cases.back().destination_offset = off;
    cases.push_back(aligned);
    cases.back().source_stride += off;
  }
  // More segments than thread blocks, and no segment at all.
  cases.push_back({.segments = 100,
                   .runs = 2,
                   .run_bytes = 304,
                   .source_stride = 1024,
                   .destination_stride = 304});
  cases.push_back({.segments = 0});
  // A transpose on each axis: token and head swapped, then layers taken apart; aligned,
  // odd, and so short that a 16-byte word has several runs.
  for (const uint64_t run : {256, 100, 3}) {
    CopyCase turned = {.segments = 2,
                       .runs = 5,
                       .run_bytes = run,
                       .source_stride = 3 * run,
                       .destination_stride = run,
                       .outer = {{{3, run, 5 * run}, {2, 15 * run, 30 * run}}}};
    cases.push_back(turned);
    turned.outer.axes[2] = {4, 30 * run, 60 * run + 16};
    cases.push_back(turned);
    turned.runs = 1;
    cases.push_back(turned);
  }
  // Sizes around the pieces of a sum and the end of its last stripe.
  for (const uint64_t bytes : {240, 241, 256, 1024, 1025, 1087, 1088, 1089, 2064, 3072, 3073}) {
    cases.push_back(
        {.segments = 3, .run_bytes = bytes, .source_stride = bytes, .destination_stride = bytes});
  }
  return cases;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_COPY_CASES_H_
