// Tests tables, JSON and units by themselves; rendering_test.cc has the verbs' own output.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "cli/json.h"
#include "cli/table.h"
#include "cli/units.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

TEST(Units, BytesHaveThreeDigitsThatCount) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.00 KiB");
  EXPECT_EQ(BytesText(10 << 10), "10.0 KiB");
  EXPECT_EQ(BytesText(150 << 10), "150 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(BytesText(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(Units, SecondsTakeTheUnitThatFits) {
  EXPECT_EQ(SecondsText(0), "0 s");
  EXPECT_EQ(SecondsText(1e-6), "1.00 us");
  EXPECT_EQ(SecondsText(850e-6), "850 us");
  EXPECT_EQ(SecondsText(0.0012), "1.20 ms");
  EXPECT_EQ(SecondsText(0.99999), "1.00 s");
  EXPECT_EQ(SecondsText(59.9), "59.9 s");
  EXPECT_EQ(SecondsText(303), "5 min 3 s");
  EXPECT_EQ(SecondsText(3600), "1 h 0 min");
  EXPECT_EQ(SecondsText(3 * 86400 + 4 * 3600), "3 d 4 h");
  EXPECT_EQ(SecondsText(-1), "?");
  EXPECT_EQ(SecondsText(std::nan("")), "?");
  EXPECT_EQ(SecondsText(std::numeric_limits<double>::infinity()), "?");
}

TEST(Units, CountsHaveTheirThousandsApart) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(12345678), "12,345,678");
}

TEST(Units, AShareOfNothingIsNoNumber) {
  EXPECT_EQ(ShareText(0, 0), "-");
  EXPECT_EQ(ShareText(3, 4), "75.0 %");
}

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"NAME"}, {"BYTES", Align::kRight}, {""}}, /*indent=*/1);
  table.AddRow({"a", "1", "x"});
  table.AddRow({"longer", "12345678", ""});
  EXPECT_EQ(table.ToString(),
            " NAME       BYTES\n"
            " a              1  x\n"
            " longer  12345678\n");
}

TEST(Table, WithoutTitlesThereIsNoTitleLine) {
  Table table({{""}, {""}});
  table.AddRow({"up", "3 s"});
  EXPECT_EQ(table.ToString(), "up  3 s\n");
}

TEST(Table, AnEscapeSequenceFromTheOtherSideIsNotObeyed) {
  Table table({{"NODE"}});
  table.AddRow({"a\x1b[2Jb\n"});
  EXPECT_EQ(table.ToString(), "NODE\na?[2Jb?\n");
}

TEST(Json, WritesMembersInTheOrderOfTheCalls) {
  JsonWriter json;
  json.Count("bytes", std::numeric_limits<uint64_t>::max());
  json.OpenArray("list");
  json.OpenElement();
  json.Flag("yes", true);
  json.Close();
  json.OpenElement();
  json.Close();
  json.Close();
  json.OpenObject("empty");
  json.Close();
  json.OpenArray("none");
  json.Close();
  EXPECT_EQ(json.Finish(), R"({
  "schema_version": 1,
  "bytes": 18446744073709551615,
  "list": [
    {
      "yes": true
    },
    {}
  ],
  "empty": {},
  "none": []
}
)");
}

TEST(Json, SecondsAreFloatsAndWhatIsNoNumberIsNull) {
  JsonWriter json;
  json.Seconds("a", 0.000123);
  json.Seconds("b", 3);
  json.Seconds("c", std::nan(""));
  EXPECT_EQ(json.Finish(),
            "{\n  \"schema_version\": 1,\n  \"a\": 0.000123,\n  \"b\": 3.0,\n  \"c\": null\n}\n");
}

TEST(Json, TextIsEscaped) {
  JsonWriter json;
  json.Text("t", "a\"b\\c\n\x7f\xc3\xa9");
  EXPECT_EQ(json.Finish(),
            "{\n  \"schema_version\": 1,\n  \"t\": \"a\\\"b\\\\c\\u000a\\u007f\xc3\xa9\"\n}\n");
}

TEST(JsonDeathTest, WhatWasOpenedIsClosed) {
  JsonWriter json;
  json.OpenArray("list");
  EXPECT_DEATH(json.Finish(), "CHECK");
  EXPECT_DEATH(json.Count("member", 1), "CHECK");
}

}  // namespace
}  // namespace kvtier::cli
