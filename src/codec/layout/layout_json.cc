// SPDX-License-Identifier: Apache-2.0
#include "codec/layout/layout_json.h"

#include <nlohmann/json.hpp>

#include "codec/layout/dtype.h"

namespace stepfs::codec {

std::string LayoutToJson(const Layout& layout) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Tensor& tensor : layout.tensors) {
    Json entry = {{"name", tensor.name}, {"dtype", SafetensorsName(tensor.dtype)}, {"shape", tensor.shape}};
    const bool chunked = tensor.extents.size() > 1 || !tensor.extents[0].origin.empty();
    if (!chunked) {
      entry["offset"] = tensor.extents[0].offset;
      entry["nbytes"] = tensor.extents[0].nbytes;
    } else {
      Json chunks = Json::array();
      for (const TensorExtent& extent : tensor.extents) {
        chunks.push_back({{"origin", extent.origin}, {"offset", extent.offset}, {"nbytes", extent.nbytes}});
      }
      entry["chunks"] = std::move(chunks);
    }
    list.push_back(std::move(entry));
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stepfs::codec
