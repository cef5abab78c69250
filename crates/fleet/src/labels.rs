//! What a process belongs to, from the path of its control group: a systemd unit, a container, a Kubernetes pod.

/// Labels of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// `redis.service`; empty if it has none.
    pub unit: String,
    /// ID of the container, 64 hexadecimal digits; empty outside of one.
    pub container: String,
    /// UID of the pod, with dashes; empty outside of one.
    pub pod: String,
}

impl Labels {
    /// Takes them from a path such as `/system.slice/redis.service`.
    pub fn of_group(path: &str) -> Self {
        let mut labels = Self::default();
        for name in path.split('/') {
            let bare = name.strip_suffix(".scope").or(name.strip_suffix(".slice")).unwrap_or(name);
            let last = bare.rsplit('-').next().unwrap_or(bare);
            if name.ends_with(".service") {
                labels.unit = name.into();
            } else if last.len() == 64 && last.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                labels.container = last.into();
            } else if let Some(uid) = pod(bare) {
                labels.pod = uid;
            }
        }
        labels
    }

    /// The service: that of the unit, but for the container run time's own, else the name of the program.
    pub fn service(&self, program: &str) -> String {
        let unit = self.unit.strip_suffix(".service").filter(|_| self.container.is_empty());
        unit.map_or(program, |unit| unit.split('@').next().unwrap_or(unit)).into()
    }
}

/// `pod2b0c…` or, as systemd's driver has it, `kubepods-burstable-pod2b0c…` with underscores.
fn pod(name: &str) -> Option<String> {
    let (_, uid) =
        name.rsplit_once("pod").filter(|(before, _)| before.is_empty() || before.ends_with('-'))?;
    let uid = uid.replace('_', "-");
    let is_uid =
        uid.len() == 36 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e1c0b9a8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f";
    const UID: &str = "2b0c6f1e-8a53-4b1e-9d2a-0c5f3e7a1b44";

    #[test]
    fn groups_of_systemd_docker_and_kubernetes() {
        let of = |path: &str, program| {
            let labels = Labels::of_group(path);
            let service = labels.service(program);
            (labels.unit, labels.container, labels.pod, service)
        };
        let found = |unit: &str, container: &str, pod: &str, service: &str| {
            (unit.to_owned(), container.to_owned(), pod.to_owned(), service.to_owned())
        };
        assert_eq!(
            of("/system.slice/redis.service", "redis-server"),
            found("redis.service", "", "", "redis")
        );
        let template = "/system.slice/system-postgresql.slice/postgresql@15-main.service";
        assert_eq!(
            of(template, "postgres"),
            found("postgresql@15-main.service", "", "", "postgresql")
        );
        assert_eq!(
            of("/user.slice/user-0.slice/session-3.scope", "node"),
            found("", "", "", "node")
        );
        assert_eq!(
            of(&format!("/system.slice/docker-{ID}.scope"), "node"),
            found("", ID, "", "node")
        );
        assert_eq!(of(&format!("/docker/{ID}"), "node"), found("", ID, "", "node"));
        let burstable = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{ID}.scope",
            UID.replace('-', "_")
        );
        assert_eq!(of(&burstable, "checkout"), found("", ID, UID, "checkout"));
        assert_eq!(
            of(&format!("/kubepods/besteffort/pod{UID}/{ID}"), "checkout"),
            found("", ID, UID, "checkout")
        );
        assert_eq!(of("/", "init"), found("", "", "", "init"));
        assert_eq!(of("/podman/tripod", "x"), found("", "", "", "x"));
    }
}
