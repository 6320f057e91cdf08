#include "mlbench/objects/answers.h"

#include <gmock/gmock.h>

#include "mlbench/base/input.h"
#include "mlbench/base/test_error.h"

namespace mlbench::objects {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// What OpenStack Swift 2.30 answered, shortened.
const char* const kPage =
    R"(<?xml version='1.0' encoding='UTF-8'?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>a/</Prefix>
<NextContinuationToken>YS9i</NextContinuationToken><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys>
<IsTruncated>true</IsTruncated><Contents><Key>a/&#228; &amp; b</Key><LastModified>2026-11-29T13:56:28.000Z</LastModified>
<ETag>"5d41402abc4b2a76b9719d911017c592"</ETag><Size>5</Size><Owner><ID>x</ID></Owner></Contents>
<Contents><Key>a/b</Key><ETag>&quot;ab-2&quot;</ETag><Size>9007199254740993</Size></Contents></ListBucketResult>)";

std::string page_with(const std::string& content) {
  return "<ListBucketResult><IsTruncated>false</IsTruncated>" + content + "</ListBucketResult>";
}

TEST(ListPage, HoldsKeysSizesAndWhereItGoesOn) {
  const ListPage page = parse_list_page("s3://b", kPage);
  EXPECT_THAT(page.objects, ElementsAre(Object{"a/\xC3\xA4 & b", 5, "5d41402abc4b2a76b9719d911017c592"},
                                        Object{"a/b", 9007199254740993, "ab-2"}));
  EXPECT_EQ(page.next, "YS9i");
  EXPECT_THAT(parse_list_page("s3://b", page_with("")).objects, IsEmpty());
}

TEST(ListPage, WhatIsNoneIsRefused) {
  const auto error = [](const std::string& text) { return error_of([&] { parse_list_page("s3://b", text); }); };
  EXPECT_THAT(error(""), HasSubstr("s3://b: the list is not XML that is read here: line 1: no element found"));
  EXPECT_THAT(error("<html></html>"), HasSubstr("is this an S3 endpoint?"));
  EXPECT_THAT(error(page_with("").substr(0, 40)), HasSubstr("not XML"));
  EXPECT_THAT(error(page_with("<Contents><Key>a</Key><Size>-1</Size></Contents>")), HasSubstr("without a size"));
  EXPECT_THAT(error(page_with("<Contents><Key>a</Key><Size>1e3</Size></Contents>")), HasSubstr("without a size"));
  EXPECT_THAT(error(page_with("<Contents><ETag>a&#10;b: c</ETag></Contents>")), HasSubstr("an ETag that is none"));
  EXPECT_THAT(error("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"), HasSubstr("goes on"));
  EXPECT_THAT(error(std::string(inputs::kObjectList.most_bytes + 1, ' ')), HasSubstr("a list of objects has at most"));
}

TEST(ListPage, DepthAndEntitiesHaveEnds) {
  std::string deep, end;
  for (size_t i = 0; i <= kDeepestNesting; ++i) {
    deep += "<a>";
    end += "</a>";
  }
  EXPECT_THAT(error_of([&] { parse_list_page("s3://b", deep + end); }), HasSubstr("nested too deep"));
  const std::string bomb = "<!DOCTYPE a [<!ENTITY x \"xxxx\"><!ENTITY y \"&x;&x;\">]><a>&y;</a>";
  EXPECT_THAT(error_of([&] { parse_list_page("s3://b", bomb); }), HasSubstr("declares a document type"));
}

TEST(Refusal, SaysCodeMessageAndRegion) {
  const Refusal refusal = parse_refusal(
      "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message><Region>eu-west-1</Region>"
      "</Error>");
  EXPECT_EQ(refusal.code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(refusal.message, "the region is wrong");
  EXPECT_EQ(refusal.region, "eu-west-1");
  EXPECT_EQ(parse_refusal("<Error><Code>x</Code>").code, "") << "a text that is cut says nothing";
  EXPECT_EQ(parse_refusal("Forbidden").code, "");
}

}  // namespace
}  // namespace mlbench::objects
