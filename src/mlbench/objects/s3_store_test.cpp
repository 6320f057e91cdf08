#include "mlbench/objects/s3_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/test_error.h"
#include "mlbench/objects/fake_store_test.h"

namespace mlbench::objects {
namespace {

using namespace std::chrono_literals;
using net::http::Request;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Fault = FakeStore::Fault;

std::string text_of(ObjectStore& store, const Object& object, int64_t offset, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '?');
  store.read(object, offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string whole(ObjectStore& store, const Object& object) { return text_of(store, object, 0, object.bytes); }

// The message of a failure that may pass, and did not.
std::string comm_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no error";
}

TEST(S3Store, ListsPageAfterPageBelowThePrefix) {
  FakeStore fake;
  fake.page = 2;
  for (int i = 0; i < 5; ++i) fake.put(fmt::format("train/{}.tar", i), std::string(static_cast<size_t>(i + 1), 'x'));
  fake.put("train/", "");
  fake.put("trainer", "not below");
  const auto store = open_store("s3://bucket/train", fake.options());
  const std::vector<Object> objects = store->list();
  ASSERT_EQ(objects.size(), 5U);
  EXPECT_EQ(objects[4], (Object{"4.tar", 5, md5_of("xxxxx")}));
  EXPECT_EQ(store->counters().objects, 5);
  EXPECT_EQ(store->counters().requests, 3);
  EXPECT_EQ(store->kind(), "s3");
  EXPECT_EQ(store->place(), "s3://bucket/train/");
}

TEST(S3Store, SignaturesHoldForOddKeysListsAndTokens) {
  FakeStore fake;
  fake.session_token = "FwoGZXIvYXdzEB/+a==";
  const std::vector<std::string> keys = {"a b+c%d~e", "a&b=c?d#e", "x/(1)'*!$@:,;[]",
                                         "\xC3\xA4\xE2\x82\xAC/\xF0\x9F\x98\x80"};
  for (const std::string& key : keys) fake.put("p q&r/" + key, "content of " + key);
  fake.page = 1;
  const auto store = open_store("s3://bucket/p q&r/", fake.options());
  const std::vector<Object> objects = store->list();
  ASSERT_EQ(objects.size(), keys.size());
  for (const Object& object : objects) EXPECT_EQ(whole(*store, object), "content of " + object.key);
}

TEST(S3Store, RangesComeIntoTheCallersMemoryWithOneCopy) {
  FakeStore fake;
  const std::string content = content_of(3'000'000);
  fake.put("shard", content);
  const auto store = open_store("s3://bucket", fake.options());
  const Object shard = store->list().at(0);
  EXPECT_EQ(whole(*store, shard), content);
  EXPECT_EQ(text_of(*store, shard, 1'234'567, 7), content.substr(1'234'567, 7));
  EXPECT_EQ(text_of(*store, shard, 2'999'999, 1), content.substr(2'999'999));
  EXPECT_EQ(text_of(*store, shard, 5, 0), "");
  const Counters counters = store->counters();
  EXPECT_EQ(counters.reads, 4);
  EXPECT_EQ(counters.bytes, 3'000'008);
  EXPECT_EQ(counters.copied_bytes, counters.bytes);
  EXPECT_EQ(counters.retries, 0);
  EXPECT_THAT(error_of([&] { text_of(*store, shard, 2'999'999, 2); }),
              HasSubstr("2 bytes from 2999999 on, but it has 3000000"));
}

TEST(S3Store, ACutReadGoesOnWhereItStopped) {
  FakeStore fake;
  const std::string content = content_of(1'000'000);
  fake.put("shard", content);
  std::vector<std::string> ranges;
  fake.faults = [&](int count, const Request& request) -> Fault {
    if (request.header("Range").empty()) return {};
    ranges.emplace_back(request.header("Range"));
    EXPECT_EQ(request.header("If-Match"), "\"" + md5_of(content) + "\"");
    return count < 4 ? Fault{.cut_after = 300'000} : Fault{};
  };
  const auto store = open_store("s3://bucket", fake.options());
  const Object shard = store->list().at(0);
  EXPECT_EQ(whole(*store, shard), content);
  EXPECT_THAT(ranges,
              ElementsAre("bytes=0-999999", "bytes=300000-999999", "bytes=600000-999999", "bytes=900000-999999"));
  EXPECT_EQ(store->counters().retries, 3);
  EXPECT_EQ(store->counters().bytes, 1'000'000) << "no byte came twice";
}

TEST(S3Store, WhatMayPassIsAskedAgain) {
  FakeStore fake;
  fake.put("a", "content");
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    fake.faults = [=, first = fake.requests()](int count, const Request&) -> Fault {
      return {.status = count == first || count == first + 2 ? status : 0,
              .body = "<Error><Code>SlowDown</Code></Error>"};
    };
    const auto store = open_store("s3://bucket", fake.options());
    EXPECT_EQ(whole(*store, store->list().at(0)), "content") << status;
    EXPECT_EQ(store->counters().retries, 2) << status;
  }
}

TEST(S3Store, ASilentAnswerIsAskedForAgain) {
  FakeStore fake;
  fake.put("a", "content");
  fake.faults = [](int count, const Request&) -> Fault { return {.delay = count == 1 ? 2500ms : 0ms}; };
  const auto store = open_store("s3://bucket", fake.options());
  EXPECT_EQ(whole(*store, store->list().at(0)), "content");
  EXPECT_EQ(store->counters().retries, 1);
}

TEST(S3Store, AttemptsAndTimeHaveEnds) {
  FakeStore fake;
  fake.put("a", "content");
  StoreOptions options = fake.options();
  options.attempts = 3;
  const auto store = open_store("s3://bucket", options);
  const Object object = store->list().at(0);
  fake.faults = [](int, const Request&) -> Fault { return {.status = 503}; };
  EXPECT_THAT(comm_error_of([&] { whole(*store, object); }),
              AllOf(HasSubstr("s3://bucket/a: "), HasSubstr("status 503"), HasSubstr("3 attempts without success"),
                    HasSubstr("by mlbench bench storage s3://bucket")));
  EXPECT_EQ(fake.requests(), 4);

  options.attempts = 1000;
  options.patience = 300ms;
  options.first_pause = 100ms;
  const auto patient = open_store("s3://bucket", options);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(comm_error_of([&] { whole(*patient, object); }), HasSubstr("tried for 0.3 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_LE(patient->counters().requests, 4) << "pauses of at least 50, 100 and 200 ms";
}

TEST(S3Store, AnObjectThatChangesInTheMiddleIsAnError) {
  FakeStore fake;
  const std::string content = content_of(100'000);
  fake.put("shard", content);
  fake.faults = [&](int count, const Request&) -> Fault {
    if (count == 2) fake.put("shard", content_of(100'000, 7));
    return count == 1 ? Fault{.cut_after = 50'000} : Fault{};
  };
  const auto store = open_store("s3://bucket", fake.options());
  Object shard = store->list().at(0);
  EXPECT_THAT(error_of([&] { whole(*store, shard); }),
              AllOf(HasSubstr("s3://bucket/shard: "), HasSubstr("list the objects again")));
  fake.faults = nullptr;
  EXPECT_THAT(error_of([&] { text_of(*store, shard, 10, 10); }), HasSubstr("list the objects again"));
  shard.etag = "";
  fake.put("shard", "shorter");
  EXPECT_THAT(error_of([&] { text_of(*store, shard, 0, 3); }),
              HasSubstr("the object has 7 bytes and ETag '" + md5_of("shorter") + "' now, expected 100000"));
  EXPECT_THAT(error_of([&] { text_of(*store, shard, 99, 3); }), HasSubstr("list the objects again"));
}

TEST(S3Store, WrongBytesAreSeenByTheMd5OfAWholeObject) {
  FakeStore fake;
  const std::string content = content_of(50'000);
  fake.put("image", content);
  StoreOptions options = fake.options();
  options.attempts = 3;
  const auto store = open_store("s3://bucket", options);
  const Object image = store->list().at(0);
  fake.faults = [](int count, const Request&) -> Fault { return {.wrong_byte = count == 1}; };
  EXPECT_EQ(whole(*store, image), content) << "damage on the way passes";
  EXPECT_EQ(store->counters().retries, 1);
  EXPECT_EQ(store->counters().checked.bytes, 100'000) << "both times";
  EXPECT_GT(store->counters().checked.ns, 0);
  fake.faults = [](int, const Request&) -> Fault { return {.wrong_byte = true}; };
  EXPECT_THAT(comm_error_of([&] { whole(*store, image); }), HasSubstr("do not have the MD5 that is their ETag"));
  options.compares = false;
  const auto unchecked = open_store("s3://bucket", options);
  EXPECT_NE(whole(*unchecked, image), content) << "as was asked for";
  EXPECT_EQ(unchecked->counters().checked.bytes, 0);
  // With a key of its own the ETag is no MD5; nor is that of an object that came in parts.
  fake.faults = [](int, const Request&) -> Fault {
    return {.headers = {{"x-amz-server-side-encryption", "aws:kms"}, {"ETag", "\"" + std::string(32, 'a') + "\""}}};
  };
  EXPECT_EQ(whole(*store, {"image", 50'000, ""}), content);
  fake.faults = nullptr;
  fake.etag = std::string(32, 'b') + "-2";
  EXPECT_EQ(whole(*store, store->list().at(0)), content);
}

TEST(S3Store, AnswersOfAnotherRangeOrLengthAreErrors) {
  FakeStore fake;
  fake.put("a", content_of(1000));
  const auto store = open_store("s3://bucket", fake.options());
  const Object object = store->list().at(0);
  const auto with = [&](net::http::Fields headers) {
    fake.faults = [headers](int, const Request&) -> Fault { return {.headers = headers}; };
    return error_of([&] { text_of(*store, object, 100, 50); });
  };
  EXPECT_THAT(with({{"Content-Range", "bytes 0-49/1000"}}), HasSubstr("expected 'bytes 100-149/'"));
  EXPECT_THAT(with({{"Content-Range", ""}}), HasSubstr("expected 'bytes 100-149/'"));
  EXPECT_THAT(with({{"Content-Range", "bytes 100-149/999"}}), HasSubstr("has 999 bytes"));
  EXPECT_THAT(with({{"ETag", "\"other\""}}), HasSubstr("ETag 'other' now"));
  fake.faults = [](int, const Request&) -> Fault { return {.status = 200, .body = std::string(1000, 'x')}; };
  EXPECT_THAT(error_of([&] { text_of(*store, object, 100, 50); }), HasSubstr("status 200"));
}

TEST(S3Store, RefusalsSayWhatToCheckAndNoSecret) {
  FakeStore fake;
  fake.put("a", "content");
  const auto store = open_store("s3://bucket", fake.options());
  const Object object = store->list().at(0);
  EXPECT_THAT(error_of([&] { open_store("s3://other", fake.options())->list(); }),
              AllOf(HasSubstr("404 NoSuchBucket"), HasSubstr("check the bucket's name"), HasSubstr(fake.endpoint())));
  EXPECT_THAT(error_of([&] {
                whole(*store, {"gone", 3, ""});
              }),
              AllOf(HasSubstr("s3://bucket/gone: "), HasSubstr("404 NoSuchKey"), HasSubstr("list the objects again")));
  int sent = fake.requests();
  fake.faults = [](int, const Request&) -> Fault {
    return {.status = 403, .body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"};
  };
  EXPECT_THAT(error_of([&] { whole(*store, object); }),
              AllOf(HasSubstr("403 AccessDenied: no"), HasSubstr("may list the bucket and read its objects"),
                    HasSubstr("credentials of the environment")));
  EXPECT_EQ(fake.requests(), sent + 1) << "a refusal is not asked again";
  fake.faults = [](int, const Request&) -> Fault {
    return {.status = 400,
            .body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"};
  };
  EXPECT_THAT(error_of([&] { store->list(); }), HasSubstr("the bucket's region is eu-west-1"));
  fake.faults = nullptr;
  const StoreOptions options = fake.options();
  setenv("AWS_SECRET_ACCESS_KEY", "another-secret", 1);
  // The fake's message holds the secret that it knows: here that is not ours, in the second case it is.
  EXPECT_THAT(error_of([&] { open_store("s3://bucket", options)->list(); }),
              AllOf(HasSubstr("403 SignatureDoesNotMatch"), HasSubstr("check the secret key"),
                    Not(HasSubstr("another-secret"))));
  fake.options();
  EXPECT_THAT(error_of([&] { open_store("s3://other", options)->list(); }),
              AllOf(HasSubstr("a reason with ***"), Not(HasSubstr(FakeStore::kSecret))));
}

TEST(S3Store, A403InTheMiddleOfAReadIsClearAndALaterReadIsWhole) {
  FakeStore fake;
  const std::string content = content_of(100'000);
  fake.put("shard", content);
  fake.faults = [](int count, const Request&) -> Fault {
    if (count == 1) return {.cut_after = 40'000};
    return {.status = count == 2 ? 403 : 0, .body = "<Error><Code>AccessDenied</Code></Error>"};
  };
  const auto store = open_store("s3://bucket", fake.options());
  const Object shard = store->list().at(0);
  EXPECT_THAT(error_of([&] { whole(*store, shard); }), HasSubstr("403 AccessDenied"));
  EXPECT_EQ(whole(*store, shard), content);
}

TEST(S3Store, KeysAndListsOfAHostileStoreAreRefused) {
  FakeStore fake;
  const auto store = open_store("s3://bucket/p", fake.options());
  const auto listed = [&](const std::string& content) {
    fake.faults = [content](int, const Request&) -> Fault {
      return {.status = 200, .body = "<ListBucketResult>" + content + "</ListBucketResult>"};
    };
    return error_of([&] { store->list(); });
  };
  EXPECT_THAT(listed("<Contents><Key>p/../x</Key><Size>1</Size></Contents>"), HasSubstr("'..'"));
  EXPECT_THAT(listed("<Contents><Key>p/a&#10;b</Key><Size>1</Size></Contents>"), HasSubstr("control character"));
  EXPECT_THAT(listed("<Contents><Key>other</Key><Size>1</Size></Contents>"), HasSubstr("which is not below it"));
  EXPECT_THAT(listed("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
              HasSubstr("does not end"));
  EXPECT_THAT(listed("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
                     "<Contents><Key>p/a</Key><Size>1</Size></Contents>"),
              HasSubstr("does not end"));
  EXPECT_THAT(listed(std::string(17 << 20, ' ')), HasSubstr("a list of objects has at most"));
  EXPECT_THAT(error_of([&] { whole(*store, {"../x", 1, ""}); }), HasSubstr("'..'"));
}

TEST(S3Store, ManyThreadsShareItsConnectionsWhileTheServerFails) {
  FakeStore fake;
  for (int i = 0; i < 8; ++i) fake.put(fmt::format("{}", i), content_of(200'000, static_cast<uint32_t>(i)));
  StoreOptions options = fake.options();
  options.connections = 3;
  const auto store = open_store("s3://bucket", options);
  const std::vector<Object> objects = store->list();
  // 5 % are cut, 5 % refused for a moment, and the server is killed and started again in the middle.
  fake.faults = [](int count, const Request&) -> Fault {
    if (count % 20 == 3) return {.cut_after = 1000};
    return {.status = count % 20 == 13 ? 503 : 0};
  };
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint32_t thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      RandomSequence random(thread);
      for (int i = 0; i < 30; ++i) {
        const auto number = random.below(8);
        const auto offset = static_cast<int64_t>(random.below(150'000));
        const std::string expected = content_of(200'000, static_cast<uint32_t>(number));
        if (text_of(*store, objects[number], offset, 50'000) != expected.substr(static_cast<size_t>(offset), 50'000))
          ++wrong;
      }
    });
  }
  while (fake.requests() < 60) std::this_thread::sleep_for(1ms);
  const uint16_t port = fake.port();
  fake.stop();
  fake.start(port);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store->counters().reads, 180);
  EXPECT_GT(store->counters().retries, 0);
}

}  // namespace
}  // namespace mlbench::objects
