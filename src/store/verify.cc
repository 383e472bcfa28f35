// SPDX-License-Identifier: Apache-2.0
#include "store/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "store/content_store_impl.h"

namespace stepfs::store {
namespace {

using index::Table;

constexpr std::uint64_t kWindow = std::uint64_t{8} << 20;

Result<Digest> DigestOf(const ByteSource& source, std::uint64_t size) {
  DigestBuilder builder;
  ByteVector buffer(static_cast<std::size_t>(std::min(kWindow, size)));
  for (std::uint64_t offset = 0; offset < size; offset += buffer.size()) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - offset));
    STEPFS_RETURN_IF_ERROR(source.ReadAt(offset, MutableBytes(buffer).first(length)));
    builder.Update(Bytes(buffer).first(length));
  }
  return builder.Finish();
}

// A sealed content's stored bytes, or with `deep` its decoded ones.
Status CheckSealed(ContentStore::Impl& contents, ContentId id, const ContentRecord& row, bool deep) {
  if (deep) {
    STEPFS_ASSIGN_OR_RETURN(const auto source, contents.OpenSealed(id, row, 0, false));
    STEPFS_ASSIGN_OR_RETURN(const Digest found, DigestOf(*source, row.size));
    if (row.digest && found != *row.digest) {
      return Status::Corruption("digest " + found.ToString() + ", expected " + row.digest->ToString());
    }
  }
  STEPFS_ASSIGN_OR_RETURN(auto blob, contents.blobs->Open(row.blob));
  const SliceSource frame(std::move(blob), row.blob_offset, row.stored_bytes);
  STEPFS_ASSIGN_OR_RETURN(const auto reader, codec::FrameReader::Open(frame));
  return reader->VerifyStoredBytes();
}

Status CheckContent(ContentStore::Impl& contents, ContentId id, const ContentRecord& row, bool deep) {
  switch (row.state) {
    case ContentState::kSealed:
      return CheckSealed(contents, id, row, deep);
    case ContentState::kInline:
      if (row.inline_bytes.size() != row.size || (row.digest && Hash128(AsBytes(row.inline_bytes)) != *row.digest)) {
        return Status::Corruption("inline bytes do not match their digest");
      }
      return {};
    case ContentState::kStaged: {
      STEPFS_ASSIGN_OR_RETURN(const auto source, contents.OpenAny(id, 0));
      STEPFS_ASSIGN_OR_RETURN(const Digest found, DigestOf(*source, row.size));
      if (row.digest && found != *row.digest) return Status::Corruption("staged bytes do not match their digest");
      return {};
    }
    case ContentState::kDamaged:
      return Status::Corruption("known to be damaged");
    case ContentState::kOpen:
    case ContentState::kAlias:  // Checked as what it is an alias of.
      return {};
  }
  return {};
}

}  // namespace

Result<std::vector<Store::Damage>> VerifyStore(Catalog& catalog, ContentStore& contents, History& history, bool deep,
                                               const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<Store::Damage> damages;
  STEPFS_RETURN_IF_ERROR(catalog.index()
                             .Verify([&](Table table, std::string_view key) {
                               damages.push_back({"", 0,
                                                  "index row of table " + std::to_string(static_cast<int>(table)) +
                                                      " (key of " + std::to_string(key.size()) + " bytes) is damaged"});
                             })
                             .status());

  std::map<ContentId, ContentRecord> rows;
  std::uint64_t total = 0;
  STEPFS_RETURN_IF_ERROR(
      catalog.index().Scan(Table::kContents, {}, {}, [&](std::string_view key, std::string_view value) {
        const auto id = index::NumberFromKey(key);
        if (auto row = ContentRecord::Decode(value); id && row.ok()) {
          total += row->size;
          rows.emplace(*id, std::move(*row));
        }
        return true;
      }));

  std::map<ContentId, std::string> broken;
  std::uint64_t done = 0;
  for (const auto& [id, row] : rows) {
    Status status = CheckContent(contents.impl(), id, row, deep);
    if (!status.ok()) {
      // Sealed, reopened or forgotten while it was looked at: judge it by its row of now.
      auto now = catalog.Raw(Table::kContents, index::ContentKey(id));
      if (now.ok() && !*now) {
        status = Status();
      } else if (now.ok()) {
        if (auto current = ContentRecord::Decode(**now); current.ok() && current->state != row.state) {
          status = CheckContent(contents.impl(), id, *current, deep);
        }
      }
    }
    if (!status.ok()) broken.emplace(id, status.ToString());
    done += row.size;
    if (progress && !progress(done, total)) break;
  }
  // What is coded against something broken is broken as well.
  for (bool grew = !broken.empty(); grew;) {
    grew = false;
    for (const auto& [id, row] : rows) {
      if (broken.contains(id)) continue;
      std::vector<ContentId> needed = row.sources;
      if (row.state == ContentState::kAlias) needed.push_back(row.alias_of);
      for (const ContentId source : needed) {
        if (!broken.contains(source)) continue;
        broken.emplace(id, "needs content " + std::to_string(source) + ", which is damaged");
        grew = true;
        break;
      }
    }
  }

  std::set<ContentId> named;
  std::vector<std::pair<index::VersionAt, std::string>> affected;
  STEPFS_RETURN_IF_ERROR(
      catalog.index().Scan(Table::kVersions, {}, {}, [&](std::string_view key, std::string_view value) {
        const auto at = index::VersionFromKey(key);
        auto version = VersionRecord::Decode(value);
        if (!at || !version.ok()) return true;
        if (auto found = broken.find(version->content); found != broken.end()) {
          affected.emplace_back(*at, found->second);
          named.insert(version->content);
        }
        return true;
      }));
  for (const auto& [at, what] : affected) {
    damages.push_back({history.PathOf(at.place).value_or(at.place.name), at.version, what});
  }
  for (const auto& [id, what] : broken) {
    if (!named.contains(id)) damages.push_back({"", 0, "content " + std::to_string(id) + ": " + what});
  }
  return damages;
}

}  // namespace stepfs::store
