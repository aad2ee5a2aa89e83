#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "client/lanes/laid_out.h"
#include "tests/client/tensor_memory.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TensorMemory;

constexpr testing::LayoutSize kSize = {.layers = 3, .slots = 4, .run_bytes = 512, .start = 64};

TEST(KvTensorsTest, EveryLayoutIsLaidOutFromItsLowestTensor) {
  for (const testing::LayoutMaker maker : testing::kLayouts) {
    TensorMemory memory(maker, kSize);
    const auto laid_out = LayOut(memory.tensors(), memory.space());
    ASSERT_TRUE(laid_out.ok()) << memory.layout().name << ": " << laid_out.status();
    const KvGeometry& formula = memory.layout().geometry;
    const uint64_t start = memory.layout().registered.front().offset;
    for (size_t i = 0; i < formula.bases.size(); ++i) {
      EXPECT_EQ(laid_out->rows.planes[i], formula.bases[i] - start);
    }
    EXPECT_EQ(laid_out->rows.raw_bytes(), memory.space().block_bytes);
  }
}

TEST(KvTensorsTest, TensorsMayTouchAndLieInAnyOrder) {
  std::vector<std::byte> memory(size_t{6} * 512);
  // Two adjacent layers, the second one at the lower address.
  const KvTensors tensors = {
      .tensors = {std::span(memory).subspan(1024, 1024), std::span(memory).first(1024)},
      .axes = KvAxes::kLatent,
      .layers = 2,
      .slots = 2,
      .run_bytes = 512,
      .block_stride = 512,
      .bases = {{.tensor = 0}, {.tensor = 1}}};
  SpaceSpec spec = TensorMemory(testing::LatentLayout, kSize).space();
  spec.layers = 2;
  spec.block_bytes = 1024;
  const auto laid_out = LayOut(tensors, spec);
  ASSERT_TRUE(laid_out.ok()) << laid_out.status();
  EXPECT_THAT(laid_out->rows.planes, ElementsAre(1024, 0));
}

struct Wrong {
  std::function<void(KvTensors*, SpaceSpec*)> change;
  std::string words;
};

TEST(KvTensorsTest, WhatDoesNotFitIsRefusedNamingFieldAndValue) {
  const std::vector<Wrong> wrongs = {
      {[](KvTensors* t, SpaceSpec*) { t->tensors.clear(); }, "adopting 0 ranges"},
      {[](KvTensors* t, SpaceSpec*) { t->tensors[1] = t->tensors[1].first(0); }, "range 1 is 0"},
      {[](KvTensors* t, SpaceSpec*) { t->tensors[1] = t->tensors[0]; }, "overlaps"},
      {[](KvTensors* t, SpaceSpec*) { t->bases[4].tensor = 9; },
       "bases[4].tensor is 9; must be below 3"},
      {[](KvTensors* t, SpaceSpec*) { t->bases[0].offset = 4096; },
       "bases[0].offset is 4096; must be below the tensor's 4096"},
      // The last slot would end one byte after the tensor.
      {[](KvTensors* t, SpaceSpec*) { t->bases[1].offset += 1; }, "bases"},
      {[](KvTensors* t, SpaceSpec*) { t->slots = 5; }, "bases"},
      {[](KvTensors* t, SpaceSpec*) { t->bases.pop_back(); }, "bases"},
      {[](KvTensors* t, SpaceSpec*) { t->block_stride = 511; }, "block_stride is 511"},
      {[](KvTensors* t, SpaceSpec*) { t->order = KvOrder::kHeadToken; },
       "layout is \"layer,kv,head,token,dim\"; must be the space's, \"layer,kv,token,head,dim\""},
      {[](KvTensors*, SpaceSpec* s) { s->layers = 4; }, "layers is 3; must be the space's, 4"},
      {[](KvTensors*, SpaceSpec* s) { s->block_bytes = 3073; }, "block_bytes, 3073"},
      {[](KvTensors*, SpaceSpec* s) { s->head_dim = 0; }, "head_dim"},
      {[](KvTensors*, SpaceSpec* s) { s->any_length = true; }, "any_length"},
  };
  for (const Wrong& wrong : wrongs) {
    TensorMemory memory(testing::PerLayerLayout, kSize);
    KvTensors tensors = memory.tensors();
    SpaceSpec spec = memory.space();
    wrong.change(&tensors, &spec);
    const absl::Status status = LayOut(tensors, spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.words));
  }
}

TEST(KvTensorsTest, HeadsFirstIsAnotherLayoutOfTheSpace) {
  TensorMemory memory(testing::PerLayerLayout, kSize);
  KvTensors tensors = memory.tensors();
  tensors.order = KvOrder::kHeadToken;
  SpaceSpec spec = memory.space();
  EXPECT_FALSE(LayOut(tensors, spec).ok());
  spec.layout = SpaceLayout(KvAxes::kApart, KvOrder::kHeadToken);
  EXPECT_EQ(LayOut(tensors, spec).status(), absl::OkStatus());
}

TEST(KvTensorsTest, BlocksOfASpaceWithACodecAreEncodedWhateverTheOrder) {
  TensorMemory memory(testing::PerLayerLayout, {.layers = 2, .slots = 4, .run_bytes = 512});
  SpaceSpec spec = memory.space();
  spec.dtype = "bfloat16", spec.kv_heads = 1, spec.head_dim = 16, spec.tokens_per_block = 16;
  spec.codec = "int8", spec.block_bytes = 1216;
  for (const KvOrder order : {KvOrder::kTokenHead, KvOrder::kHeadToken}) {
    KvTensors tensors = memory.tensors();
    tensors.order = order;
    const auto laid_out = LayOut(tensors, spec);
    ASSERT_EQ(laid_out.status(), absl::OkStatus());
    EXPECT_EQ(laid_out->codec, Codec::kInt8);
    EXPECT_EQ(laid_out->rows.token_stride, 32U) << "of one head, whatever the order";
    EXPECT_EQ(laid_out->block_bytes, 1216U);
  }
  EXPECT_EQ(LayOut(memory.tensors(), memory.space())->codec, Codec::kRaw) << "as they are";
  TensorMemory longer(testing::PerLayerLayout, {.layers = 2, .slots = 4, .run_bytes = 1024});
  const absl::Status status = LayOut(longer.tensors(), spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("row_bytes is 32"));
  spec.dtype = "float32";
  EXPECT_THAT(std::string(LayOut(memory.tensors(), spec).status().message()), HasSubstr("dtype"));
}

}  // namespace
}  // namespace kvtier
