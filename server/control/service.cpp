#include "server/control/service.h"

#include "common/format.h"
#include "common/log.h"
#include "server/control/convert.h"
#include "server/store/usage_log.h"
#include "transport/transport.h"

#include <capnp/rpc-twoparty.h>
#include <grp.h>
#include <kj/async-io.h>
#include <kj/async.h>
#include <kj/io.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace sluice::server::control {
namespace {

/// On its way from the broker's thread to ours. It has a lock of its own and KJ only says that it
/// is there: ThreadSanitizer does not see how KJ, which is not instrumented, orders threads.
template <class Value>
class Answer {
 public:
  void set(Value value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }
  Value take() {
    const std::lock_guard lock(mutex_);
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::optional<Value> value_;
};

using Arrival = kj::Own<kj::CrossThreadPromiseFulfiller<void>>;

/// One method per method of control.capnp: ask the broker, write down what it said.
class ControlServer final : public capnp_control::Control::Server {
 public:
  ControlServer(Administration& administration, const Post& post)
      : administration_(administration), post_(post) {}

  kj::Promise<void> server(ServerContext context) override {
    return ask<ServerInfo>([](Administration& a) { return a.server(); })
        .then(
            [context](ServerInfo info) mutable { write(info, context.getResults().initServer()); });
  }
  kj::Promise<void> sessions(SessionsContext context) override {
    return ask<std::vector<SessionInfo>>([](Administration& a) { return a.sessions(); })
        .then([context](std::vector<SessionInfo> list) mutable {
          auto out = context.getResults().initSessions(static_cast<unsigned>(list.size()));
          for (unsigned i = 0; i < out.size(); ++i) write(list[i], out[i]);
        });
  }
  kj::Promise<void> tenants(TenantsContext context) override {
    return ask<std::vector<TenantInfo>>([](Administration& a) { return a.tenants(); })
        .then([context](std::vector<TenantInfo> list) mutable {
          auto out = context.getResults().initTenants(static_cast<unsigned>(list.size()));
          for (unsigned i = 0; i < out.size(); ++i) write(list[i], out[i]);
        });
  }
  kj::Promise<void> setTenant(SetTenantContext context) override {
    const auto change = context.getParams().getChange();
    return change_with(context, [name = text(change.getName()), change = read(change)](
                                    Administration& a) { return a.set_tenant(name, change); });
  }
  kj::Promise<void> removeTenant(RemoveTenantContext context) override {
    const auto params = context.getParams();
    return change_with(context,
                       [name = text(params.getName()), is_forced = params.getIsForced()](
                           Administration& a) { return a.remove_tenant(name, is_forced); });
  }
  kj::Promise<void> newToken(NewTokenContext context) override {
    return change_with(context, [name = text(context.getParams().getTenant())](Administration& a) {
      return a.new_token(name);
    });
  }
  kj::Promise<void> revokeToken(RevokeTokenContext context) override {
    return change_with(context, [name = text(context.getParams().getTenant())](Administration& a) {
      return a.revoke_token(name);
    });
  }
  kj::Promise<void> killSession(KillSessionContext context) override {
    return count_with(context, [id = context.getParams().getId()](Administration& a) {
      return a.kill_session(id);
    });
  }
  kj::Promise<void> killTenant(KillTenantContext context) override {
    return count_with(context, [name = text(context.getParams().getTenant())](Administration& a) {
      return a.kill_tenant(name);
    });
  }
  kj::Promise<void> reload(ReloadContext context) override {
    return ask<Result<std::string>>([](Administration& a) { return a.reload(); })
        .then([context](Result<std::string> summary) mutable {
          if (summary)
            context.getResults().setSummary(*summary);
          else
            write(summary.error(), context.getResults().initProblem());
        });
  }
  kj::Promise<void> usage(UsageContext context) override {
    return ask<std::shared_ptr<store::UsageLog>>([](Administration& a) { return a.usage_log(); })
        .then([context](std::shared_ptr<store::UsageLog> log) mutable {
          // Here and not in the broker's thread: a year's usage takes its time.
          const auto groups = log->query(read(context.getParams().getQuery()));
          if (!groups) return write(groups.error(), context.getResults().initProblem());
          auto out = context.getResults().initGroups(static_cast<unsigned>(groups->size()));
          for (unsigned i = 0; i < out.size(); ++i) write((*groups)[i], out[i]);
        });
  }

 private:
  /// Runs `question` in the broker's thread. If that one is over, the promise is broken.
  template <class Value>
  kj::Promise<Value> ask(std::function<Value(Administration&)> question) {
    auto pair = kj::newPromiseAndCrossThreadFulfiller<void>();
    const auto answer = std::make_shared<Answer<Value>>();
    // Shared because std::function wants copies; the last one is the broker's.
    const auto arrival = std::make_shared<Arrival>(kj::mv(pair.fulfiller));
    post_([this, answer, arrival, question = std::move(question)] {
      answer->set(question(administration_));
      (*arrival)->fulfill();
    });
    return pair.promise.then([answer] { return answer->take(); });
  }

  template <class Context>
  kj::Promise<void> change_with(Context context,
                                std::function<Result<Changed>(Administration&)> question) {
    return ask<Result<Changed>>(std::move(question))
        .then([context](Result<Changed> changed) mutable {
          auto out = context.getResults().initChanged();
          if (changed)
            write(*changed, out);
          else
            write(changed.error(), out.initProblem());
        });
  }

  template <class Context>
  kj::Promise<void> count_with(Context context,
                               std::function<Result<std::uint32_t>(Administration&)> question) {
    return ask<Result<std::uint32_t>>(std::move(question))
        .then([context](Result<std::uint32_t> count) mutable {
          if (count)
            context.getResults().setCount(*count);
          else
            write(count.error(), context.getResults().initProblem());
        });
  }

  Administration& administration_;
  const Post& post_;
};

/// The socket is private until the group is set, so that nobody slips in between.
Status open_to_group(const std::string& path, const std::string& group) {
  const struct group* entry = ::getgrnam(group.c_str());
  if (entry == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                format("group \"{}\" in [control]: this machine has no such group", group));
  if (::chown(path.c_str(), static_cast<uid_t>(-1), entry->gr_gid) != 0 ||
      ::chmod(path.c_str(), 0660) != 0)
    return fail(system_error("giving " + path + " to group " + group, errno));
  return {};
}

}  // namespace

struct Service::Stop {
  kj::Own<kj::CrossThreadPromiseFulfiller<void>> fulfiller;
};

Service::Service(std::string path) : path_(std::move(path)), stop_(std::make_unique<Stop>()) {}

Result<std::unique_ptr<Service>> Service::start(const std::string& path, const std::string& group,
                                                Administration& administration, Post post) {
  SLUICE_TRY(const transport::Address address, transport::parse_address("unix:" + path));
  SLUICE_TRY(Fd listener, transport::listen_socket(address, 0600));
  std::unique_ptr<Service> service(new Service(path));
  if (!group.empty()) SLUICE_CHECK(open_to_group(path, group));
  std::promise<Status> is_ready;
  service->thread_ = std::thread([self = service.get(), fd = listener.release(), &administration,
                                  post = std::move(post), &is_ready]() mutable {
    bool is_serving = false;
    try {
      auto io = kj::setupAsyncIo();
      auto stop = kj::newPromiseAndCrossThreadFulfiller<void>();
      capnp::TwoPartyServer server(kj::heap<ControlServer>(administration, post));
      auto receiver = io.lowLevelProvider->wrapListenSocketFd(kj::AutoCloseFd(fd));
      self->stop_->fulfiller = kj::mv(stop.fulfiller);
      is_serving = true;
      is_ready.set_value({});
      server.listen(*receiver).exclusiveJoin(kj::mv(stop.promise)).wait(io.waitScope);
    } catch (const kj::Exception& error) {
      const std::string text = error.getDescription().cStr();
      if (is_serving)
        SLUICE_LOG_ERROR("session", "the control service ended: {}", text);
      else
        is_ready.set_value(fail(ErrorCode::kSystem, "starting the control service: " + text));
    }
  });
  SLUICE_CHECK(is_ready.get_future().get());
  return service;
}

Service::~Service() {
  if (stop_->fulfiller.get() != nullptr) stop_->fulfiller->fulfill();
  if (thread_.joinable()) thread_.join();
  ::unlink(path_.c_str());
}

}  // namespace sluice::server::control
