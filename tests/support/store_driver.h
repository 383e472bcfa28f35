// SPDX-License-Identifier: Apache-2.0
//
// Drives a store as a program would drive the mount: by paths and whole contents, without FUSE.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace stepfs::testing {

inline void Check(const Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().ToString();
    throw std::runtime_error(result.status().ToString());
  }
  return std::move(result).value();
}

class StoreDriver {
 public:
  explicit StoreDriver(store::Store& store) : store_(store), tree_(store.tree()) {}

  store::Place PlaceOf(std::string_view path) {
    store::InodeNumber directory = index::kRootInode;
    for (;;) {
      const auto slash = path.find('/');
      if (slash == path.npos) return {directory, std::string(path)};
      directory = Take(tree_.Lookup(directory, path.substr(0, slash))).ino;
      path.remove_prefix(slash + 1);
    }
  }

  store::OpenFilePtr Open(std::string_view path, int flags) {
    const store::Place place = PlaceOf(path);
    if (flags & O_CREAT) return Take(tree_.Create(place.parent, place.name, 0644, flags, {0, 0})).second;
    return Take(tree_.Open(Take(tree_.Lookup(place.parent, place.name)).ino, flags));
  }
  void Close(store::OpenFilePtr file) {
    Check(tree_.Flush(*file));
    Check(tree_.Release(std::move(file)));
  }
  void Write(std::string_view path, std::string_view bytes) {
    auto file = Open(path, O_WRONLY | O_CREAT | O_TRUNC);
    WriteAt(*file, 0, bytes);
    Close(std::move(file));
  }
  void WriteAt(store::OpenFile& file, std::uint64_t offset, std::string_view bytes) {
    EXPECT_EQ(Take(tree_.Write(file, offset, AsBytes(bytes))), bytes.size());
  }
  void Append(std::string_view path, std::string_view bytes) {
    auto file = Open(path, O_WRONLY | O_APPEND);
    WriteAt(*file, Take(tree_.GetAttributes(InodeOf(path))).size, bytes);
    Close(std::move(file));
  }
  std::string Read(std::string_view path) {
    auto file = Open(path, O_RDONLY);
    std::string bytes(Take(tree_.GetAttributes(InodeOf(path))).size + 1, '\0');
    const std::size_t got = Take(tree_.Read(*file, 0, std::as_writable_bytes(std::span(bytes))));
    bytes.resize(got);
    Check(tree_.Release(std::move(file)));
    return bytes;
  }
  void Rename(std::string_view from, std::string_view to, unsigned flags = 0) {
    const store::Place a = PlaceOf(from), b = PlaceOf(to);
    Check(tree_.Rename(a.parent, a.name, b.parent, b.name, flags));
  }
  void Unlink(std::string_view path) {
    const store::Place place = PlaceOf(path);
    const store::InodeNumber ino = InodeOf(path);
    Check(tree_.Unlink(place.parent, place.name));
    tree_.Forget(ino);
  }
  void MakeDirectory(std::string_view path) {
    const store::Place place = PlaceOf(path);
    Take(tree_.MakeDirectory(place.parent, place.name, 0755, {0, 0}));
  }
  void RemoveDirectory(std::string_view path) {
    const store::Place place = PlaceOf(path);
    Check(tree_.RemoveDirectory(place.parent, place.name));
  }
  bool Exists(std::string_view path) {
    const store::Place place = PlaceOf(path);
    return tree_.Lookup(place.parent, place.name).ok();
  }
  store::InodeNumber InodeOf(std::string_view path) {
    const store::Place place = PlaceOf(path);
    return Take(tree_.Lookup(place.parent, place.name)).ino;
  }
  std::vector<store::VersionInfo> Versions(std::string_view path) {
    return Take(store_.history().Versions(PlaceOf(path)));
  }
  std::string ReadVersion(const store::VersionInfo& info) {
    const auto source = Take(store_.history().Open(info));
    std::string bytes(info.record.size, '\0');
    Check(source->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }
  // "1:first 2:second": numbers and contents of all versions of a path.
  std::string Story(std::string_view path) {
    std::string story;
    for (const auto& info : Versions(path)) {
      if (!story.empty()) story += ' ';
      story += std::to_string(info.version) + ":" + ReadVersion(info);
    }
    return story;
  }

 private:
  store::Store& store_;
  store::Tree& tree_;
};

}  // namespace stepfs::testing
