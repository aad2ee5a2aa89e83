#include "tier_gpu/device/cuda_blocks.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Alignment of blocks in buffers, enough for the widest accesses of kernels and the copy engine;
// codecs need less.
constexpr uint64_t kStep = 256;
// Maximum number of entries that one call of the codecs puts into a stream (codec.h).
constexpr size_t kCodecEntries = 4;
// Shape of the blocks with which all kernels are loaded: the smallest shape that every codec makes
// smaller.
constexpr KvShape kTinyShape = {
    .layers = 1, .axes = 2, .tokens = 16, .kv_heads = 1, .head_dim = 16};

// An onboard puts this many entries ahead in a row: two waits, the copies of a portion, and the
// event.
static_assert(kMaxBatchBlocks + 3 <= kMaxEntriesAhead);

constexpr uint64_t StepFor(uint64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

bool IsOut(CopyDirection direction) { return direction == CopyDirection::kDeviceToHost; }

// Returns whether the rows are summed as they are moved: the stored bytes are the rows, in one
// piece.
bool SumsRows(const BlockBatch& batch, const RowMoves& moves) {
  return batch.codec == Codec::kRaw && moves.pieces.size() == 1;
}

uint32_t ThreadBlocksOf(const BlockBatch& batch) {
  return batch.codec == Codec::kRaw ? kRawThreadBlocks : kCodecThreadBlocks;
}

uint64_t PiecesOfBuffer(uint64_t buffer_bytes) {
  return kernels::PiecesOf(buffer_bytes) + kMaxBatchBlocks;
}

}  // namespace

CudaBlocks::CudaBlocks(const Options& options)
    : options_(options),
      streams_{.lane = options.lane},
      buffer_bytes_(
          StepFor(std::max(options.largest_block, RawBytes(kTinyShape)) + kEncodedHeaderBytes)) {}

absl::StatusOr<std::unique_ptr<CudaBlocks>> CudaBlocks::Open(const Options& options) {
  auto blocks = absl::WrapUnique(new CudaBlocks(options));
  KVT_RETURN_IF_ERROR(blocks->OpenStream());
  KVT_RETURN_IF_ERROR(blocks->Allocate());
  KVT_RETURN_IF_ERROR(blocks->LoadKernels());
  return blocks;
}

absl::Status CudaBlocks::OpenStream() {
  KVT_RETURN_IF_ERROR(CudaStatus(
      "cudaStreamCreateWithPriority",
      cudaStreamCreateWithPriority(&streams_.ahead, cudaStreamNonBlocking, options_.priority)));
  KVT_RETURN_IF_ERROR(CreateEvent(&awaited_));
  return CreateEvent(&joined_);
}

absl::Status CudaBlocks::Allocate() {
  const uint64_t piece_bytes = PiecesOfBuffer(buffer_bytes_) * sizeof(kernels::LaneSums);
  const uint64_t bytes = (kBlockBuffers + 1) * buffer_bytes_ + piece_bytes +
                         kMaxLaneDepth * sizeof(BlockOutcomes) + sizeof(uint32_t);
  void* memory = nullptr;
  KVT_RETURN_IF_ERROR(CudaStatus("cudaMalloc", cudaMalloc(&memory, bytes)));
  memory_ = static_cast<std::byte*>(memory);
  std::byte* next = memory_;
  for (Buffer& buffer : buffers_) {
    buffer.memory = std::exchange(next, next + buffer_bytes_);
    KVT_RETURN_IF_ERROR(CreateEvent(&buffer.filled));
    KVT_RETURN_IF_ERROR(CreateEvent(&buffer.emptied));
  }
  raw_ = std::exchange(next, next + buffer_bytes_);
  pieces_ = reinterpret_cast<kernels::LaneSums*>(std::exchange(next, next + piece_bytes));
  outcomes_ = reinterpret_cast<BlockOutcomes*>(
      std::exchange(next, next + kMaxLaneDepth * sizeof(BlockOutcomes)));
  arrived_ = reinterpret_cast<uint32_t*>(next);
  KVT_RETURN_IF_ERROR(CudaStatus("cudaMemsetAsync", cudaMemsetAsync(arrived_, 0, sizeof(*arrived_),
                                                                    streams_.of(where_kernels()))));
  void* lists = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaHostAlloc", cudaHostAlloc(&lists, kMaxLaneDepth * sizeof(Lists),
                                                cudaHostAllocPortable | cudaHostAllocMapped)));
  lists_ = static_cast<Lists*>(lists);
  void* on_device = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&on_device, lists_, 0)));
  lists_on_device_ = static_cast<Lists*>(on_device);
  return absl::OkStatus();
}

// Calls the kernels with a block of no bytes, which they refuse.
absl::Status CudaBlocks::LoadKernels() {
  const BlockGeometry geometry = {.shape = kTinyShape, .row_bytes = 32};
  const Portion portion = {.count = 1, .buffer = buffers_[0].memory, .moves = 1};
  BlockBatch batch = {.direction = options_.direction, .geometry = &geometry, .summed = false};
  batch.block_bytes = geometry.raw_bytes();
  lists_->moves[0] = {.runs = 0};
  KVT_RETURN_IF_ERROR(MoveRows(batch, {}, portion, 0).put());
  lists_->stored[0] = {.source = buffers_[0].memory, .run_bytes = batch.block_bytes};
  KVT_RETURN_IF_ERROR(SumStored(batch, portion, 0).put());
  lists_->blocks[0] = {};
  for (const Codec codec : {Codec::kFp8E4m3, Codec::kInt8, Codec::kPackedExponents}) {
    batch.codec = codec;
    batch.block_bytes = EncodedBytes(codec, kTinyShape);
    KVT_RETURN_IF_ERROR(Code(batch, portion, 0).put());
  }
  return CudaStatus("cudaStreamSynchronize", cudaStreamSynchronize(streams_.of(where_kernels())));
}

// Ignores errors: these calls fail when the device is lost, and then everything is gone already.
CudaBlocks::~CudaBlocks() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.filled != nullptr) (void)cudaEventDestroy(buffer.filled);
    if (buffer.emptied != nullptr) (void)cudaEventDestroy(buffer.emptied);
  }
  if (awaited_ != nullptr) (void)cudaEventDestroy(awaited_);
  if (joined_ != nullptr) (void)cudaEventDestroy(joined_);
  if (streams_.ahead != nullptr) (void)cudaStreamDestroy(streams_.ahead);
  if (memory_ != nullptr) (void)cudaFree(memory_);
  if (lists_ != nullptr) (void)cudaFreeHost(lists_);
  (void)cudaGetLastError();
}

absl::Status CudaBlocks::Check(const BlockBatch& batch, const CudaHostMemory& host) const {
  KVT_RETURN_IF_ERROR(CheckBlocks(batch));
  for (const BlockTransfer& block : batch.blocks) {
    KVT_RETURN_IF_ERROR(host.Check({block.host, batch.block_bytes}));
  }
  KVT_RETURN_IF_ERROR(host.Check(std::as_bytes(std::span(batch.outcomes, 1))));
  const uint64_t raw_bytes = batch.geometry->raw_bytes();
  if (raw_bytes <= options_.largest_block) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("blocks of ", raw_bytes, " bytes; must be at most ", options_.largest_block,
                   ", the largest_block that the device was opened with"));
}

CudaBlocks::Steps CudaBlocks::StepsOf(const BlockBatch& batch) {
  // An encoder needs room for a block that stays raw, whether the block is then stored or not.
  const uint64_t room =
      batch.codec == Codec::kRaw ? batch.block_bytes : MaxEncodedBytes(batch.geometry->shape);
  return {.stored = StepFor(room), .raw = StepFor(batch.geometry->raw_bytes())};
}

void CudaBlocks::FillLists(const BlockBatch& batch, const RowMoves& moves, const Portion& portion,
                           Lists* lists) const {
  const bool out = IsOut(batch.direction);
  const Steps steps = StepsOf(batch);
  size_t next_move = portion.first_move;
  for (size_t i = 0; i < portion.count; ++i) {
    const BlockTransfer& block = batch.blocks[portion.first + i];
    std::byte* const stored = portion.buffer + i * steps.stored;
    std::byte* const raw = batch.codec == Codec::kRaw ? stored : raw_ + i * steps.raw;
    std::byte* const device = batch.region->address() + block.device_offset;
    for (const RowMoves::Piece& piece : moves.pieces) {
      lists->moves[next_move++] = moves.Segment(batch.direction, piece, device, raw);
    }
    lists->stored[portion.first + i] = {.source = stored, .run_bytes = batch.block_bytes};
    const uint64_t raw_bytes = batch.geometry->raw_bytes();
    const uint64_t room = out ? steps.stored : batch.block_bytes;
    lists->blocks[portion.first + i] = {.source = out ? raw : stored,
                                        .source_bytes = out ? raw_bytes : room,
                                        .destination = out ? stored : raw,
                                        .destination_bytes = out ? room : raw_bytes};
  }
}

kernels::SumRequest CudaBlocks::SumsOf(const BlockBatch& batch, const Portion& portion,
                                       size_t place) const {
  return {.sums = outcomes_[place].sums.data() + portion.first,
          .pieces = pieces_,
          .arrived = arrived_,
          .room = static_cast<uint32_t>(kernels::PiecesOf(batch.block_bytes))};
}

CudaCommand CudaBlocks::MoveRows(const BlockBatch& batch, const RowMoves& moves,
                                 const Portion& portion, size_t place) const {
  kernels::CopySegmentsLaunch launch = {
      .segments = lists_on_device_[place].moves.data() + portion.first_move,
      .count = static_cast<uint32_t>(portion.moves),
      .outer = moves.Outer(batch.direction),
      .thread_blocks = ThreadBlocksOf(batch),
      .stream = streams_.of(where_kernels())};
  if (batch.summed && SumsRows(batch, moves)) launch.sum = SumsOf(batch, portion, place);
  return {.where = where_kernels(), .put = [launch] {
            return LaunchStatus("the copying kernel",
                                [&launch] { return kernels::CopySegmentsOnDevice(launch); });
          }};
}

CudaCommand CudaBlocks::Code(const BlockBatch& batch, const Portion& portion, size_t place) const {
  const kernels::CodecLaunch launch = {
      .codec = batch.codec,
      .shape = batch.geometry->shape,
      .blocks = lists_on_device_[place].blocks.data() + portion.first,
      .outcomes = outcomes_[place].codecs.data() + portion.first,
      .count = static_cast<uint32_t>(portion.count),
      .thread_blocks = ThreadBlocksOf(batch),
      .stream = streams_.of(where_kernels())};
  return {.where = where_kernels(),
          .put =
              [launch, out = IsOut(batch.direction)] {
                return LaunchStatus("the coding kernels", [&launch, out] {
                  return out ? kernels::EncodeOnDevice(launch) : kernels::DecodeOnDevice(launch);
                });
              },
          .entries = kCodecEntries};
}

CudaCommand CudaBlocks::SumStored(const BlockBatch& batch, const Portion& portion,
                                  size_t place) const {
  kernels::CopySegmentsLaunch launch = {
      .segments = lists_on_device_[place].stored.data() + portion.first,
      .count = static_cast<uint32_t>(portion.count),
      .thread_blocks = ThreadBlocksOf(batch),
      .stream = streams_.of(where_kernels())};
  launch.sum = SumsOf(batch, portion, place);
  return {.where = where_kernels(), .put = [launch] {
            return LaunchStatus("the summing kernel",
                                [&launch] { return kernels::CopySegmentsOnDevice(launch); });
          }};
}

CudaCommand CudaBlocks::ZeroRests(const BlockBatch& batch, const Portion& portion) const {
  const uint64_t encoded = EncodedBytes(batch.codec, batch.geometry->shape);
  return {where_kernels(), [first = portion.buffer + encoded, step = StepsOf(batch).stored,
                            rest = batch.block_bytes - encoded, count = portion.count,
                            stream = streams_.of(where_kernels())] {
            return CudaStatus("cudaMemset2DAsync",
                              cudaMemset2DAsync(first, step, 0, rest, count, stream));
          }};
}

std::vector<CudaCommand> CudaBlocks::Kernels(const BlockBatch& batch, const RowMoves& moves,
                                             const Portion& portion, size_t place) const {
  const bool out = IsOut(batch.direction);
  const bool coded = batch.codec != Codec::kRaw;
  const bool sums_apart = batch.summed && !SumsRows(batch, moves);
  std::vector<CudaCommand> commands;
  if (out && HasRoomForRaw(batch)) commands.push_back(ZeroRests(batch, portion));
  if (out) commands.push_back(MoveRows(batch, moves, portion, place));
  if (coded) commands.push_back(Code(batch, portion, place));
  if (sums_apart) commands.push_back(SumStored(batch, portion, place));
  if (!out) commands.push_back(MoveRows(batch, moves, portion, place));
  return commands;
}

void CudaBlocks::AppendOutcomes(const BlockBatch& batch, const CudaHostMemory& host, size_t place,
                                std::vector<CudaCommand>* commands) const {
  BlockOutcomes* const from = &outcomes_[place];
  auto* const to = reinterpret_cast<BlockOutcomes*>(host.DeviceAddress(batch.outcomes));
  const size_t count = batch.blocks.size();
  CudaCopies copies;
  if (batch.codec == Codec::kRaw) {
    // Raw blocks always have this size, so the host writes the outcomes now; nobody else may use
    // their memory before the batch ends.
    std::fill_n(batch.outcomes->codecs.begin(), count,
                kernels::CodecOutcome{.bytes = batch.block_bytes});
  } else {
    copies.Add(reinterpret_cast<std::byte*>(&to->codecs),
               reinterpret_cast<const std::byte*>(&from->codecs),
               count * sizeof(kernels::CodecOutcome));
  }
  if (batch.summed) {
    copies.Add(reinterpret_cast<std::byte*>(&to->sums),
               reinterpret_cast<const std::byte*>(&from->sums),
               count * sizeof(kernels::PayloadSum));
  } else {
    std::fill_n(batch.outcomes->sums.begin(), count, kernels::PayloadSum{});
  }
  std::move(copies).AppendTo(commands, kInLane, streams_.lane);
}

std::vector<CudaCommand> CudaBlocks::Commands(const BlockBatch& batch, const CudaHostMemory& host,
                                              size_t place) {
  const bool out = IsOut(batch.direction);
  const RowMoves moves = RowMoves::Of(*batch.geometry);
  const Steps steps = StepsOf(batch);
  const size_t fit = buffer_bytes_ / std::max(steps.stored, steps.raw);
  const auto where_copies = out ? kInLane : kAhead;
  std::vector<CudaCommand> commands = {streams_.WaitFor(awaited_, kAhead)};
  for (size_t first = 0; first < batch.blocks.size(); first += fit) {
    const Buffer& buffer = buffers_[next_buffer_++ % kBlockBuffers];
    Portion portion = {.first = first,
                       .count = std::min(fit, batch.blocks.size() - first),
                       .buffer = buffer.memory,
                       .first_move = first * moves.pieces.size()};
    portion.moves = portion.count * moves.pieces.size();
    FillLists(batch, moves, portion, &lists_[place]);
    CudaCopies copies;
    for (size_t i = 0; i < portion.count; ++i) {
      std::byte* const far = host.DeviceAddress(batch.blocks[first + i].host);
      std::byte* const staged = buffer.memory + i * steps.stored;
      copies.Add(out ? far : staged, out ? staged : far, batch.block_bytes);
    }
    std::vector<CudaCommand> fill = {streams_.WaitFor(buffer.emptied, kAhead)};
    std::vector<CudaCommand> empty = {streams_.WaitFor(buffer.filled, kInLane)};
    std::ranges::move(Kernels(batch, moves, portion, place),
                      std::back_inserter(out ? fill : empty));
    std::move(copies).AppendTo(out ? &empty : &fill, where_copies, streams_.of(where_copies));
    fill.push_back(streams_.Record(buffer.filled, kAhead));
    empty.push_back(streams_.Record(buffer.emptied, kInLane));
    std::ranges::move(fill, std::back_inserter(commands));
    std::ranges::move(empty, std::back_inserter(commands));
  }
  if (!batch.blocks.empty()) AppendOutcomes(batch, host, place, &commands);
  return commands;
}

}  // namespace kvtier
