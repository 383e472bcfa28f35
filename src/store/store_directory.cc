// SPDX-License-Identifier: Apache-2.0
#include "store/store_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/hash.h"

namespace stepfs::store {
namespace {

constexpr int kFormatVersion = 1;

struct NetworkFileSystem {
  std::uint32_t magic;
  const char* name;
};
constexpr std::array<NetworkFileSystem, 9> kNetworkFileSystems = {{{0x6969, "NFS"},
                                                                   {0xFF534D42, "CIFS"},
                                                                   {0xFE534D42, "SMB"},
                                                                   {0x517B, "SMB"},
                                                                   {0x00C36400, "Ceph"},
                                                                   {0x01021997, "9P"},
                                                                   {0x5346414F, "AFS"},
                                                                   {0x0BD00BD0, "Lustre"},
                                                                   {0x19830326, "BeeGFS"}}};

Status RefuseNetwork(const std::string& path, const std::string& index_directory) {
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return Status::FromErrno(errno, path);
  for (const auto& network : kNetworkFileSystems) {
    if (static_cast<std::uint32_t>(info.f_type) != network.magic) continue;
    return Status::Unsupported(path + " is on " + network.name + ", where the index (LMDB) is not safe; " +
                               (index_directory.empty() ? "give --index-dir with a directory on a local disk"
                                                        : "choose an --index-dir on a local disk"));
  }
  return {};
}

std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<bool> IsEmptyDirectory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return Status::FromErrno(errno, path);
  bool empty = true;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != "lost+found" && name != "lock") empty = false;
  }
  closedir(directory);
  return empty;
}

std::string NewUuid() {
  std::random_device random;
  std::string seed;
  for (int i = 0; i < 8; ++i) seed += std::to_string(random()) + ".";
  const std::string hex = Hash128(AsBytes(seed)).ToHex();
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

Status WriteFormat(const std::string& root, const std::string& uuid) {
  nlohmann::ordered_json format;
  format["format"] = "stepfs-store";
  format["version"] = kFormatVersion;
  format["uuid"] = uuid;
  format["features"] = nlohmann::json::array();
  const std::string text = format.dump(2) + "\n";
  const std::string temporary = root + "/format.json.tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return Status::FromErrno(errno, "creating " + temporary);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (!written) return Status::FromErrno(error, "writing " + temporary);
  if (rename(temporary.c_str(), (root + "/format.json").c_str()) != 0) return Status::FromErrno(errno, temporary);
  const int directory = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    (void)fsync(directory);
    close(directory);
  }
  return {};
}

constexpr const char* kIndexPlaceFile = "/index-directory";

// The directory to use: the one that is given, or the one remembered. Empty: root/index.
Result<std::string> ChooseIndexDirectory(const std::string& root, const std::string& given) {
  std::string remembered;
  std::ifstream file(root + kIndexPlaceFile);
  std::getline(file, remembered);
  if (given.empty() || given == remembered) return remembered;
  if (remembered.empty() && access((root + "/index").c_str(), F_OK) == 0) remembered = root + "/index";
  if (remembered.empty()) return given;
  return Status::Unsupported("the index of " + root + " is in " + remembered +
                             "; leave --index-dir out, or move the index first: `mv " + remembered + " " + given +
                             " && rm -f " + root + kIndexPlaceFile + "`");
}

Status RememberIndexDirectory(const std::string& root, const std::string& index_directory) {
  if (index_directory.empty() || access((root + kIndexPlaceFile).c_str(), F_OK) == 0) return {};
  std::ofstream file(root + kIndexPlaceFile);
  file << index_directory << "\n";
  return file.flush() ? Status() : Status::FromErrno(errno, "writing " + root + kIndexPlaceFile);
}

Result<std::string> ReadFormat(const std::string& root) {
  std::ifstream file(root + "/format.json");
  if (!file) return Status::NotFound(root + " is not a stepfs store (it has no format.json)");
  const auto format = nlohmann::json::parse(file, nullptr, false);
  if (format.is_discarded() || !format.is_object() || format.value("format", "") != "stepfs-store" ||
      !format.contains("version") || !format["version"].is_number_integer()) {
    return Status::Unsupported(root + "/format.json is not one that stepfs wrote; is this a store?");
  }
  const int version = format["version"].get<int>();
  if (version != kFormatVersion) {
    return Status::Unsupported(root + " has store format " + std::to_string(version) + ", this program knows " +
                               std::to_string(kFormatVersion) + "; use a newer stepfs");
  }
  if (format.contains("features") && format["features"].is_array() && !format["features"].empty()) {
    return Status::Unsupported(root + " uses a feature this program does not know (" + format["features"].dump() +
                               "); use a newer stepfs");
  }
  return format.value("uuid", "");
}

}  // namespace

Result<StoreDirectory> StoreDirectory::Open(const std::string& root, const std::string& given_index, bool create) {
  struct stat info {};
  bool make = false;
  if (stat(root.c_str(), &info) != 0) {
    if (errno != ENOENT) return Status::FromErrno(errno, root);
    if (!create) return Status::NotFound("there is no store at " + root);
    make = true;
  } else if (!S_ISDIR(info.st_mode)) {
    return Status::InvalidArgument(root + " is not a directory");
  } else if (info.st_uid != geteuid() && geteuid() != 0) {
    return Status::Unsupported(root + " belongs to another user; a store is opened by its owner");
  } else if (info.st_mode & 022) {
    return Status::Unsupported(root + " can be written by other users; do `chmod go-w " + root + "` first");
  }
  STEPFS_ASSIGN_OR_RETURN(const std::string index_directory, ChooseIndexDirectory(root, given_index));
  STEPFS_RETURN_IF_ERROR(
      RefuseNetwork(index_directory.empty()
                        ? (make ? ParentOf(root) : root)
                        : (access(index_directory.c_str(), F_OK) == 0 ? index_directory : ParentOf(index_directory)),
                    index_directory));

  std::string uuid;
  bool fresh = make;
  if (!make) {
    auto format = ReadFormat(root);
    if (format.ok()) {
      uuid = *format;
    } else {
      if (format.status().kind() != StatusKind::kNotFound || !create) return format.status();
      STEPFS_ASSIGN_OR_RETURN(fresh, IsEmptyDirectory(root));
      if (!fresh) {
        return Status::Unsupported(root + " is not empty and not a stepfs store; choose an empty or new directory");
      }
    }
  }
  if (make && mkdir(root.c_str(), 0700) != 0) return Status::FromErrno(errno, "creating " + root);

  StoreDirectory directory;
  const std::string lock_path = root + "/lock";
  directory.lock_fd_ = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (directory.lock_fd_ < 0) return Status::FromErrno(errno, lock_path);
  if (flock(directory.lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    char owner[32] = {};
    const ssize_t length = pread(directory.lock_fd_, owner, sizeof owner - 1, 0);
    return Status::Busy(root + " is in use by another stepfs process" +
                        (length > 1 ? " (" + std::string(owner, static_cast<std::size_t>(length) - 1) + ")" : "") +
                        "; unmount it first");
  }
  if (fresh) {
    uuid = NewUuid();
    STEPFS_RETURN_IF_ERROR(WriteFormat(root, uuid));
  }
  STEPFS_RETURN_IF_ERROR(RememberIndexDirectory(root, index_directory));
  const std::string owner = "pid " + std::to_string(getpid()) + "\n";
  if (ftruncate(directory.lock_fd_, 0) != 0 ||
      pwrite(directory.lock_fd_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    // The name of the owner is for people only; a full disk must not keep the store from opening.
  }
  directory.uuid_ = std::move(uuid);
  directory.index_directory_ = index_directory.empty() ? root + "/index" : index_directory;
  return directory;
}

StoreDirectory::StoreDirectory(StoreDirectory&& other) noexcept
    : lock_fd_(std::exchange(other.lock_fd_, -1)),
      uuid_(std::move(other.uuid_)),
      index_directory_(std::move(other.index_directory_)) {}

StoreDirectory::~StoreDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::uint64_t UniqueMountId(const std::string& path) {
  constexpr unsigned kMountIdUnique = 0x00004000;  // STATX_MNT_ID_UNIQUE, Linux 6.8; absent from older headers.
  struct statx info {};
  if (syscall(SYS_statx, AT_FDCWD, path.c_str(), 0, kMountIdUnique, &info) != 0) return 0;
  if (!(info.stx_mask & kMountIdUnique)) return 0;
  std::uint64_t id = 0;
  // stx_mnt_id has been at this place since Linux 5.8; the C library's struct may not name it.
  std::memcpy(&id, reinterpret_cast<const char*>(&info) + 0x90, sizeof id);
  return id;
}

}  // namespace stepfs::store
