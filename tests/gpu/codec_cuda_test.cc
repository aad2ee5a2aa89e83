// Compares the device forms of the codecs with their references: the same bytes and outcomes.
#include <gtest/gtest.h>

#include "kernels/codec.h"
#ifdef KVTIER_HAVE_CUDA
#include <algorithm>
#include <random>
#include <vector>

#include "tests/testing/codec_cases.h"
#include "tests/testing/device_memory.h"
#include "tests/testing/kv_values.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#endif

namespace kvtier::kernels {
namespace {

#ifndef KVTIER_HAVE_CUDA

TEST(CodecOnDeviceTest, MatchesTheReference) {
  GTEST_SKIP() << "NOT TESTED: this build has no CUDA";
}

#else

using testing::BlockBytes;
using testing::EncodeCases;
using testing::kAllCodecs;
using testing::kSmallShape;
using testing::KvShapes;
using testing::OnDevice;
using testing::Room;
using testing::ThreadBlockCounts;

class CodecOnDeviceTest : public testing::DeviceFormTest {
 protected:
  std::mt19937_64 random_{testing::TestSeed()};
};

// Result of a launch for each block: as many bytes as its outcome says, and the bytes after its
// room.
struct Converted {
  std::vector<CodecOutcome> outcomes;
  std::vector<BlockBytes> bytes;
};

enum class Way { kEncode, kDecode };

struct Request {
  Way way = Way::kEncode;
  Codec codec = Codec::kRaw;
  KvShape shape{};
  Room room = Room::kWhole;
  uint32_t thread_blocks = 8;

  uint64_t destination_bytes() const {
    const uint64_t whole = way == Way::kEncode ? MaxEncodedBytes(shape) : RawBytes(shape);
    return room == Room::kWhole ? whole : whole - 16;
  }
};

constexpr uint64_t kGuard = 256;

// Runs `form` on lists in memory of type `Memory`: OnDevice or std::vector.
template <typename Form, typename Memory>
Converted Convert(const Request& request, const std::vector<BlockBytes>& sources, Form form,
                  Memory memory) {
  const auto count = static_cast<uint32_t>(sources.size());
  std::vector<decltype(memory(BlockBytes()))> from;
  std::vector<decltype(memory(BlockBytes()))> to;
  std::vector<CodecBlock> list;
  for (const BlockBytes& source : sources) {
    from.push_back(memory(source));
    to.push_back(memory(BlockBytes(request.destination_bytes() + kGuard, std::byte{0xa5})));
    list.push_back({.source = from.back()->data(),
                    .source_bytes = source.size(),
                    .destination = to.back()->data(),
                    .destination_bytes = request.destination_bytes()});
  }
  const auto blocks = memory(list);
  const auto outcomes = memory(std::vector<CodecOutcome>(count, {77, Codec::kInt8}));
  const CodecLaunch launch = {.codec = request.codec,
                              .shape = request.shape,
                              .blocks = blocks->data(),
                              .outcomes = outcomes->data(),
                              .count = count,
                              .thread_blocks = request.thread_blocks};
  EXPECT_EQ(form(launch), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Converted converted = {outcomes->Read(), {}};
  for (uint32_t i = 0; i < count; ++i) {
    BlockBytes bytes = to[i]->Read();
    const BlockBytes guard(bytes.end() - kGuard, bytes.end());
    bytes.resize(std::min<uint64_t>(converted.outcomes[i].bytes, bytes.size()));
    bytes.insert(bytes.end(), guard.begin(), guard.end());
    converted.bytes.push_back(std::move(bytes));
  }
  return converted;
}

// Host memory with the interface of OnDevice.
template <typename T>
struct OnHost {
  std::vector<T> values;
  T* data() { return values.data(); }
  const std::vector<T>& Read() const { return values; }
};

Converted ConvertOnHost(const Request& request, const std::vector<BlockBytes>& sources) {
  return Convert(request, sources, request.way == Way::kEncode ? EncodeOnHost : DecodeOnHost,
                 []<typename T>(const std::vector<T>& values) {
                   return std::make_unique<OnHost<T> >(OnHost<T>{values});
                 });
}
Converted ConvertOnDevice(const Request& request, const std::vector<BlockBytes>& sources) {
  return Convert(request, sources, request.way == Way::kEncode ? EncodeOnDevice : DecodeOnDevice,
                 []<typename T>(const std::vector<T>& values) {
                   return std::make_unique<OnDevice<T> >(std::span<const T>(values));
                 });
}

void ExpectTheReferences(const Request& request, const std::vector<BlockBytes>& sources) {
  SCOPED_TRACE(::testing::Message()
               << (request.way == Way::kEncode ? "encode" : "decode") << " by codec "
               << static_cast<uint32_t>(request.codec) << ", " << request.shape << ", "
               << request.thread_blocks << " thread blocks");
  const Converted expected = ConvertOnHost(request, sources);
  const Converted converted = ConvertOnDevice(request, sources);
  EXPECT_EQ(converted.outcomes, expected.outcomes);
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_TRUE(converted.bytes[i] == expected.bytes[i]) << "block " << i;
  }
}

// Returns encodings of these blocks, made by the host form.
std::vector<BlockBytes> EncodingsOf(Codec codec, const KvShape& shape,
                                    const std::vector<BlockBytes>& raw) {
  const Request request = {.codec = codec, .shape = shape};
  Converted converted = ConvertOnHost(request, raw);
  for (BlockBytes& bytes : converted.bytes) bytes.resize(bytes.size() - kGuard);
  return converted.bytes;
}

class Cases {
 public:
  Cases(Codec codec, const KvShape& shape, std::mt19937_64& random)
      : codec_(codec), shape_(shape), random_(random), raw_(EncodeCases(shape, random)) {}

  void ExpectAll(uint32_t thread_blocks) {
    Request request = {.codec = codec_, .shape = shape_, .thread_blocks = thread_blocks};
    ExpectTheReferences(request, raw_);
    request.way = Way::kDecode;
    ExpectTheReferences(request, testing::DecodeCases(EncodingsOf(codec_, shape_, raw_), random_));
  }

 private:
  const Codec codec_;
  const KvShape shape_;
  std::mt19937_64& random_;
  const std::vector<BlockBytes> raw_;
};

TEST_F(CodecOnDeviceTest, MatchesTheReferenceOnEveryShape) {
  for (const Codec codec : kAllCodecs) {
    for (const KvShape& shape : KvShapes()) {
      if (testing::kSanitized && PlaneElements(shape) > 5000) continue;
      Cases(codec, shape, random_).ExpectAll(testing::kSanitized ? 2 : 8);
    }
  }
}

TEST_F(CodecOnDeviceTest, AnyNumberOfThreadBlocksGivesTheSameBytes) {
  for (const Codec codec : kAllCodecs) {
    for (const uint32_t thread_blocks : ThreadBlockCounts()) {
      Cases(codec, kSmallShape, random_).ExpectAll(thread_blocks);
    }
  }
}

TEST_F(CodecOnDeviceTest, MatchesTheReferenceOnRandomShapes) {
  for (int round = 0; round < (testing::kSanitized ? 2 : 12); ++round) {
    const KvShape shape = testing::RandomShape(random_);
    for (const Codec codec : kAllCodecs) {
      Cases(codec, shape, random_)
          .ExpectAll(1 + static_cast<uint32_t>(random_() % (testing::kSanitized ? 4 : 40)));
    }
  }
}

TEST_F(CodecOnDeviceTest, ABlockWithTooLittleRoomIsNotConverted) {
  const std::vector<BlockBytes> raw = EncodeCases(kSmallShape, random_);
  for (const Codec codec : kAllCodecs) {
    Request request = {.codec = codec, .shape = kSmallShape, .room = Room::kShort};
    ExpectTheReferences(request, raw);
    request.way = Way::kDecode;
    ExpectTheReferences(request, EncodingsOf(codec, kSmallShape, raw));
  }
}

TEST_F(CodecOnDeviceTest, AnEncodingOfAnotherShapeOrCodecIsNotTaken) {
  const std::vector<BlockBytes> raw = EncodeCases(kSmallShape, random_);
  for (const Codec stored : kAllCodecs) {
    const std::vector<BlockBytes> encodings = EncodingsOf(stored, kSmallShape, raw);
    for (const Codec asked : kAllCodecs) {
      ExpectTheReferences({.way = Way::kDecode, .codec = asked, .shape = kSmallShape}, encodings);
    }
  }
}

TEST_F(CodecOnDeviceTest, ALaunchThatCannotRunIsRefused) {
  const CodecBlock block;
  CodecOutcome outcome;
  const CodecLaunch good = {
      .shape = kSmallShape, .blocks = &block, .outcomes = &outcome, .count = 1};
  std::vector<CodecLaunch> bad(6, good);
  bad[0].codec = static_cast<Codec>(5);
  bad[5].codec = static_cast<Codec>(3);
  bad[1].shape.head_dim = 24;
  bad[2].blocks = nullptr;
  bad[3].outcomes = nullptr;
  bad[4].thread_blocks = 0;
  for (const CodecLaunch& launch : bad) {
    EXPECT_EQ(EncodeOnDevice(launch), kInvalidLaunch);
    EXPECT_EQ(DecodeOnDevice(launch), kInvalidLaunch);
  }
  EXPECT_EQ(EncodeOnDevice({.shape = kSmallShape}), 0) << "no blocks need no list";
}

#endif

}  // namespace
}  // namespace kvtier::kernels
