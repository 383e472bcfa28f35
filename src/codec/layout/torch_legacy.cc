// SPDX-License-Identifier: Apache-2.0
//
// What torch.save wrote before 1.6, and still writes on request: five pickles (a magic number, the protocol version,
// the writing system, the object, the list of storage keys), then for each key an i64 element count and the elements.
#include <unordered_map>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/pickle.h"
#include "codec/layout/torch_tree.h"

namespace stepfs::codec {
namespace {

// PROTO 2, LONG1 of 10 bytes (0x1950a86a20f9469cfc6c), STOP.
constexpr std::string_view kMagic = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "torch-legacy"; }

  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    if (AsText(window.Take(kMagic.size())) != kMagic) return NothingFrom<Layout>(window);
    const auto protocol = ReadPickle(window);
    const auto system = ReadPickle(window);
    const auto object = ReadPickle(window);
    const auto keys = ReadPickle(window);
    if (!protocol || !system || !object || !keys) return NothingFrom<Layout>(window);

    std::unordered_map<std::string, TorchStorage> storages;
    for (TorchStorage& storage : CollectTorchStorages(*object)) storages.emplace(storage.key, std::move(storage));
    Layout layout;
    layout.format = format();
    layout.step = PickledStep(*object);
    for (PickleId key : keys->Children(keys->root())) {
      const auto storage = storages.extract(std::string(keys->Text(key)));
      const auto element_count = window.Fixed<std::int64_t>();
      // A storage of unknown size hides where the next one begins.
      if (storage.empty() || element_count < 0) break;
      TorchStorage& known = storage.mapped();
      if (static_cast<std::uint64_t>(element_count) != known.element_count) break;
      const std::uint64_t offset = window.position();
      window.Skip(known.nbytes);
      if (!window.ok()) break;
      layout.tensors.push_back(
          MakeTensor(std::move(known.name), known.dtype, std::move(known.shape), offset, known.nbytes));
    }
    if (!window.failure().ok()) return window.failure();
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& TorchLegacyParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
