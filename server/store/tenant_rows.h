// What sluicectl has changed about tenants, as rows of the server's state. It wins over
// sluiced.toml key by key; keys that were never changed with sluicectl follow sluiced.toml.
#pragma once

#include "server/config/overrides.h"
#include "server/store/state.h"

namespace sluice::server::store {

Result<config::Overrides> load_tenants(State& state);
/// On the disk once it returns; on an error nothing has changed. Null: the tenant follows
/// sluiced.toml again.
Status save_tenant(State& state, const std::string& name, const config::TenantOverride* change);
/// <folder>/tenants.toml, in which older servers kept these changes, becomes rows, and its name
/// tenants.toml.imported. Nothing happens where there is none. A damaged one is an error.
Status import_older_file(State& state);

}  // namespace sluice::server::store
