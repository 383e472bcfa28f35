// SPDX-License-Identifier: Apache-2.0
#include "store/report.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace stepfs::store {
namespace {

// Enough chunks at a time to decode in parallel.
constexpr std::size_t kReadBytes = std::size_t{8} << 20;

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Json DigestJson(const std::optional<Digest>& digest) { return digest ? Json(digest->ToString()) : Json(nullptr); }

Json BaseJson(const History& history, const VersionInfo& info) {
  if (!info.base_place) return nullptr;
  return {{"path", history.PathOf(*info.base_place).value_or(info.base_place->name)},
          {"version", info.base_version},
          {"digest", DigestJson(info.base_digest)}};
}

Json VersionJson(const History& history, const VersionInfo& info) {
  // The digest is of the whole content, which may have grown since this version.
  const bool whole = info.content.size == info.record.size;
  return {{"path", history.PathOf(info.place).value_or(info.place.name)},
          {"version", info.version},
          {"step", info.step ? Json(*info.step) : Json(nullptr)},
          {"time", ToRfc3339(info.record.time)},
          {"logical_bytes", info.record.size},
          {"stored_bytes", info.stored_bytes},
          {"ratio", Ratio(info.stored_bytes, info.record.size)},
          {"codec", info.content.codec.empty() ? Json(nullptr) : Json(info.content.codec)},
          {"base", BaseJson(history, info)},
          {"depth", info.content.depth},
          {"state", StateName(info)},
          {"digest", whole ? DigestJson(info.content.digest) : Json(nullptr)},
          {"lossless", info.content.lossless}};
}

// What a reader of the log should know beside the fields of a version.
Json NotesJson(const Catalog& catalog, const VersionInfo& info) {
  Json notes = Json::array();
  if (info.record.flags & VersionRecord::kPartial) return notes;
  if (const auto place = catalog.GetPlace(info.place); place.ok() && info.version <= place->deleted_through) {
    notes.push_back("deleted");
  }
  if (info.record.flags & VersionRecord::kUnclosed) notes.push_back("unclosed");
  if (info.record.flags & VersionRecord::kProvisional) notes.push_back("provisional");
  if (info.alias) notes.push_back("duplicate");
  return notes;
}

Result<std::vector<VersionInfo>> VersionsAt(const History& history, const History::Target& target) {
  if (target.directory) return history.Below(*target.directory);
  STEPFS_ASSIGN_OR_RETURN(auto versions, history.Versions(target.place));
  STEPFS_ASSIGN_OR_RETURN(auto partials, history.Partials(target.place));
  versions.insert(versions.end(), std::make_move_iterator(partials.begin()), std::make_move_iterator(partials.end()));
  return versions;
}

Result<Json> Ping(Store& store, const ReportContext&, const Json&, ReplySink&) {
  return Json{{"pid", getpid()}, {"uuid", store.uuid()}};
}

Result<Json> Log(Store& store, const ReportContext&, const Json& request, ReplySink& sink) {
  STEPFS_ASSIGN_OR_RETURN(const std::string path, GetPath(request));
  const History& history = store.history();
  STEPFS_ASSIGN_OR_RETURN(const auto target, history.Resolve(path));
  STEPFS_ASSIGN_OR_RETURN(const auto versions, VersionsAt(history, target));
  for (const VersionInfo& info : versions) {
    STEPFS_RETURN_IF_ERROR(
        sink.Item({{"version", VersionJson(history, info)}, {"notes", NotesJson(store.catalog(), info)}}));
  }
  return Json{{"count", versions.size()}};
}

Result<Json> GetStatus(Store& store, const ReportContext& context, const Json&, ReplySink&) {
  STEPFS_ASSIGN_OR_RETURN(const Store::Usage usage, store.GetUsage());
  return Json{{"logical_bytes", usage.logical_bytes},
              {"stored_bytes", usage.stored_bytes},
              {"disk_bytes",
               {{"blobs", usage.disk.blobs},
                {"index", usage.index_bytes},
                {"cache", usage.disk.cache},
                {"staging", usage.disk.staging}}},
              {"ratio", Ratio(usage.stored_bytes, usage.logical_bytes)},
              {"versions", usage.versions},
              {"backlog_bytes", usage.backlog_bytes},
              {"mode", context.mode.empty() ? Json(nullptr) : Json(context.mode)},
              {"warnings", usage.warnings}};
}

Result<Json> Sync(Store& store, const ReportContext&, const Json&, ReplySink& sink) {
  STEPFS_RETURN_IF_ERROR(
      store.SyncAndDrain([&](std::uint64_t done, std::uint64_t total) { return sink.Progress(done, total); }));
  return Json::object();
}

Result<Json> Verify(Store& store, const ReportContext&, const Json& request, ReplySink& sink) {
  const bool deep = request.value("deep", false);
  STEPFS_ASSIGN_OR_RETURN(const auto damaged, store.Verify(deep, [&](std::uint64_t done, std::uint64_t total) {
    return sink.Progress(done, total);
  }));
  Json list = Json::array();
  for (const Store::Damage& damage : damaged) {
    list.push_back({{"path", damage.path}, {"version", damage.version}, {"what", damage.what}});
  }
  return Json{{"deep", deep}, {"damaged", std::move(list)}};
}

Result<VersionInfo> FindVersion(const History& history, const std::string& path, const std::string& specification) {
  STEPFS_ASSIGN_OR_RETURN(const auto target, history.Resolve(path));
  if (target.directory) {
    return Status::InvalidArgument((path.empty() ? "the root" : path) + " is a directory; name a file in it");
  }
  STEPFS_ASSIGN_OR_RETURN(const auto versions, history.Versions(target.place));
  if (versions.empty()) return Status::NotFound(path + " has no version yet");
  if (specification.empty()) return versions.back();
  const auto wanted = ParseVersion(specification);
  if (!wanted) return Status::InvalidArgument(specification + " is no version: give N, vNNNNNN or step-N");
  const auto found = std::find_if(versions.rbegin(), versions.rend(), [&](const VersionInfo& info) {
    return wanted->version != 0 ? info.version == wanted->version : info.step == wanted->step;
  });
  if (found == versions.rend()) {
    return Status::NotFound(path + " has no version " + specification + "; it has " +
                            std::to_string(versions.front().version) + " to " +
                            std::to_string(versions.back().version) + " (see `stepfs log`)");
  }
  return *found;
}

Result<Json> Read(Store& store, const ReportContext&, const Json& request, ReplySink& sink) {
  STEPFS_ASSIGN_OR_RETURN(const std::string path, GetPath(request));
  const History& history = store.history();
  STEPFS_ASSIGN_OR_RETURN(const VersionInfo info, FindVersion(history, path, request.value("version", "")));
  STEPFS_ASSIGN_OR_RETURN(const auto source, history.Open(info));
  ByteVector buffer(static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, source->size())));
  for (std::uint64_t offset = 0; offset < source->size(); offset += buffer.size()) {
    const auto piece = MutableBytes(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), source->size() - offset)));
    STEPFS_RETURN_IF_ERROR(
        source->ReadAt(offset, piece).WithContext(path + ", version " + std::to_string(info.version)));
    STEPFS_RETURN_IF_ERROR(sink.Data(piece));
  }
  return Json{{"version", info.version},
              {"step", info.step ? Json(*info.step) : Json(nullptr)},
              {"size", info.record.size},
              {"mode", info.record.mode},
              {"mtime_ns", info.record.mtime}};
}

using Handler = Result<Json> (*)(Store&, const ReportContext&, const Json&, ReplySink&);

const std::map<std::string, Handler, std::less<>>& Handlers() {
  static const std::map<std::string, Handler, std::less<>> handlers = {
      {"ping", Ping}, {"log", Log}, {"status", GetStatus}, {"sync", Sync}, {"verify", Verify}, {"read", Read}};
  return handlers;
}

}  // namespace

Result<Json> RunCommand(Store& store, const ReportContext& context, const Json& request, ReplySink& sink) {
  if (!request.is_object() || !request.contains("command") || !request["command"].is_string()) {
    return Status::InvalidArgument("a request is a JSON object with a command");
  }
  const auto& name = request["command"].get_ref<const std::string&>();
  const auto handler = Handlers().find(name);
  if (handler == Handlers().end()) {
    return Status::InvalidArgument("the owner of the store does not know the command " + name +
                                   "; is it an older stepfs?");
  }
  try {
    return handler->second(store, context, request, sink);
  } catch (const nlohmann::json::exception& error) {  // A field of another type than it should have.
    return Status::InvalidArgument("malformed request: " + std::string(error.what()));
  } catch (const std::bad_alloc&) {
    return Status::NoMemory("not enough memory for the command " + name);
  }
}

void SetPath(Json& request, std::string_view path) {
  try {
    const Json name = std::string(path);
    (void)name.dump();
    request["path"] = std::string(path);
  } catch (const nlohmann::json::type_error&) {
    std::string digits;
    for (const char c : path) {
      char pair[3];
      std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned char>(c));
      digits += pair;
    }
    request["path_hex"] = digits;
  }
}

Result<std::string> GetPath(const Json& request) {
  if (!request.contains("path_hex")) return request.value("path", std::string());
  const auto& digits = request["path_hex"].get_ref<const std::string&>();
  std::string path;
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    unsigned value = 0;
    const auto pair = std::string_view(digits).substr(at, 2);
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), value, 16);
    if (error != std::errc() || end != pair.data() + 2) return Status::InvalidArgument("path_hex is not hexadecimal");
    path += static_cast<char>(value);
  }
  return path;
}

std::string ToLine(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::optional<VersionSpec> ParseVersion(std::string_view text) {
  if (text.starts_with("step-")) {
    const auto step = ParseNumber<std::int64_t>(text.substr(5));
    return step ? std::optional(VersionSpec{0, step}) : std::nullopt;
  }
  if (text.starts_with("v")) text.remove_prefix(1);
  const auto version = ParseNumber<VersionNumber>(text);
  return version && *version != 0 ? std::optional(VersionSpec{*version, std::nullopt}) : std::nullopt;
}

std::string ToRfc3339(Nanoseconds time) {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  Nanoseconds fraction = time % kSecond;
  if (fraction < 0) fraction += kSecond;
  const time_t seconds = (time - fraction) / kSecond;
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const std::size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof text - length, ".%09lldZ", static_cast<long long>(fraction));
  return text;
}

double Ratio(std::uint64_t stored_bytes, std::uint64_t logical_bytes) {
  if (logical_bytes == 0) return 1.0;
  return std::round(static_cast<double>(stored_bytes) / static_cast<double>(logical_bytes) * 1e6) / 1e6;
}

}  // namespace stepfs::store
