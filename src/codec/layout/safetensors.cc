// SPDX-License-Identifier: Apache-2.0
//
// safetensors (github.com/huggingface/safetensors, "Format"): u64 header length, a JSON object from names to
// {"dtype", "shape", "data_offsets"}, then the data, from which the offsets count.
#include <charconv>
#include <nlohmann/json.hpp>

#include "codec/layout/dtype.h"
#include "codec/layout/parsers.h"
#include "codec/layout/source_window.h"

namespace stepfs::codec {
namespace {

constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;

// Collects tensors from the parser's events (nlohmann's SAX parser keeps its stack on the heap). The header is three
// levels deep; anything deeper ends the parsing.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(std::uint64_t data_begin, Layout& layout) : data_begin_(data_begin), layout_(layout) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return Malformed(); }  // Negative.
  bool number_float(number_float_t, const string_t&) override { return Malformed(); }
  bool binary(binary_t&) override { return false; }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) return Malformed();
    if (numbers_.size() == kMaxRank) return false;
    numbers_.push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ != 2) return Malformed();
    if (metadata_) {
      ReadStep(value);
    } else if (field_ == "dtype") {
      dtype_ = value;
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (++depth_ > 2 || in_array_) return false;
    if (depth_ == 2) {
      metadata_ = name_ == "__metadata__";
      dtype_.clear();
      shape_.clear();
      offsets_.clear();
    }
    return true;
  }
  bool key(string_t& value) override {
    (depth_ == 1 ? name_ : field_) = value;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !metadata_) AddTensor();
    return layout_.tensors.size() <= kMaxTensors;
  }
  bool start_array(std::size_t) override {
    if (in_array_ || depth_ != 2 || metadata_) return false;
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    if (field_ == "shape") shape_ = numbers_;
    if (field_ == "data_offsets") offsets_ = numbers_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static std::string LowerCase(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
  }

  // A value that safetensors does not put here.
  bool Malformed() const { return metadata_ && depth_ == 2; }

  void AddTensor() {
    auto dtype = DtypeFromSafetensors(dtype_);
    if (!dtype) dtype = Dtype{ElementType::kPacked4, LowerCase(dtype_), 1};  // Narrower than a byte, or too new.
    if (dtype->name.empty() || offsets_.size() != 2 || offsets_[0] >= offsets_[1]) return;
    if (offsets_[1] > ~std::uint64_t{0} - data_begin_) return;
    const std::uint64_t nbytes = offsets_[1] - offsets_[0];
    if (dtype->element != ElementType::kPacked4 && TensorBytes(shape_, dtype->item_bytes) != nbytes) return;
    layout_.tensors.push_back(MakeTensor(name_, *dtype, shape_, data_begin_ + offsets_[0], nbytes));
  }

  void ReadStep(const std::string& value) {
    constexpr std::string_view kKeys[] = {"step", "global_step", "epoch"};
    for (std::size_t rank = 0; rank < std::size(kKeys); ++rank) {
      std::int64_t step = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), step);
      if (field_ != kKeys[rank] || rank >= step_rank_ || parsed.ec != std::errc() ||
          parsed.ptr != value.data() + value.size()) {
        continue;
      }
      layout_.step = step;
      step_rank_ = rank;
    }
  }

  std::uint64_t data_begin_;
  Layout& layout_;
  int depth_ = 0;
  bool in_array_ = false;
  bool metadata_ = false;
  std::size_t step_rank_ = 3;
  std::string name_, field_, dtype_;
  std::vector<std::uint64_t> numbers_, shape_, offsets_;
};

class Parser final : public LayoutParser {
 public:
  std::string_view format() const override { return "safetensors"; }
  Result<std::optional<Layout>> Parse(const ByteSource& file) const override {
    SourceWindow window(file);
    const auto header_bytes = window.Fixed<std::uint64_t>();
    const Bytes brace = window.Take(1);
    if (!window.ok() || brace[0] != std::byte{'{'} || header_bytes > kMaxHeaderBytes - 16) {
      return NothingFrom<Layout>(window);
    }
    window.Seek(8);
    const std::string_view header = AsText(window.Take(header_bytes));
    if (!window.ok()) return NothingFrom<Layout>(window);
    Layout layout;
    layout.format = format();
    HeaderHandler handler(8 + header_bytes, layout);
    if (!nlohmann::json::sax_parse(header, &handler)) return std::optional<Layout>();
    return std::optional(std::move(layout));
  }
};

}  // namespace

const LayoutParser& SafetensorsParser() {
  static const Parser parser;
  return parser;
}

}  // namespace stepfs::codec
