//! Directories, links and files that another user put where ramson looks, and what ramson itself leaves for others to read.

use ramson_tests::forged::*;
use ramson_tests::servers::*;
use ramson_tests::strangers::as_stranger;
use ramson_tests::{library, program};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A copy where every user can read it.
fn open_copy(scratch: &Scratch, file: &Path) -> PathBuf {
    let copied = scratch.open_directory("bin").join(file.file_name().unwrap());
    if !copied.exists() {
        copy(file, &copied);
    }
    copied
}

/// A shell script in a mount namespace of its own with an empty /var/tmp, where `$ramson` is the command, `$as N` runs one as user N,
/// `$forged` is a profile that says it is of "forged", and `$program` one that allocates and ends.
fn private(scratch: &Scratch, script: &str) -> Outcome {
    let begin = "mount -t tmpfs -o mode=1777 none /var/tmp\n\
                 as() { user=$1; shift; setpriv --reuid=$user --regid=$user --clear-groups -- \"$@\"; }\n";
    let forged = scratch.path("forged");
    if !forged.exists() {
        Forged::new(999_999).write(&forged, 4096);
    }
    let mut command = clean(installed("unshare", "util-linux"));
    command.args(["-m", "sh", "-ec", &format!("{begin}{script}")]);
    command.env("ramson", open_copy(scratch, ramson_program()));
    command.env("RAMSON_LIBRARY", open_copy(scratch, library()));
    command.env("program", open_copy(scratch, &program("allocates.c")));
    command.env("hides", open_copy(scratch, &program("hides.c")));
    command.env("forged", forged).env("XDG_CACHE_HOME", "/var/tmp/cache");
    finish(command.current_dir("/"))
}

#[track_caller]
fn said(outcome: &Outcome, what: &str) {
    assert!(outcome.remarks.iter().any(|line| line.contains(what)), "{what}: {outcome:?}");
}

#[test]
fn oversized_profile_hides_no_others() {
    use ramson_format::RegionKind::Stacks;
    let scratch = Scratch::new();
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "4K", "--"]).arg(program("allocates.c"));
    assert_eq!(finish(&mut command).status, 7);
    let mut forged = Forged::new(999_999);
    let bytes: u64 = 129 << 20;
    forged.place(Stacks, 1 << 20, bytes / Stacks.entry_bytes());
    let path = scratch.path("profiles/1-1.ramson");
    let file = forged.write(&path, 256 << 20);
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; bytes as usize], 1 << 20).unwrap();
    give(&path, STRANGER);
    let list = finish(ramson(&scratch).args(["list", "-n", "0"])).good();
    assert!(list.text().contains(" allocates "), "{list:?}");
    said(&list, "profiles/1-1.ramson: more than 128 MiB of records of another user");
    let json = Json::parse(&finish(ramson(&scratch).args(["list", "--json"])).good().text());
    // Other profiled processes may run on the machine.
    let shown = |row: &&Json| row.text("profile").starts_with(scratch.path("").to_str().unwrap());
    assert_eq!(json.list("profiles").iter().filter(shown).count(), 1);
    assert_eq!(json.list("unreadable").len(), 1);
    let by_name = finish(ramson(&scratch).args(["report", "name:forged"]));
    assert_eq!(by_name.status, 1, "{by_name:?}");
    said(&by_name, "more than 128 MiB of records of another user");
    finish(ramson(&scratch).args(["report", "name:allocates"])).good();
    // It shows what runs: here one that has mapped the file and says that it is its own.
    let poses = "import mmap, os, signal, sys\n\
                 file = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)\n\
                 file[20:24] = os.getpid().to_bytes(4, 'little')\n\
                 print('ready', flush=True)\n\
                 signal.pause()\n";
    let mut python = clean(python());
    python.args(["-c", poses]).arg(&path);
    let log = scratch.path("log");
    let is_ready = || fs::read_to_string(&log).is_ok_and(|said| said == "ready\n");
    let _posing = Running::start(&mut as_stranger(&python), &log, is_ready);
    let top = finish(ramson(&scratch).args(["top", "--once"])).good();
    assert!(top.text().contains("1 more cannot be read"), "{top:?}");
    finish(ramson(&scratch).args(["list", "--prune"])).good();
}

#[test]
fn planted_file_keeps_run_status() {
    let scratch = Scratch::new();
    let shared = scratch.open_directory("shared");
    let mut forged = Forged::new(999_999);
    for kind in ramson_format::REGION_KINDS {
        forged.place(kind, 4096, (4 << 30) / kind.entry_bytes() / 2);
    }
    let planted = shared.join("build.ramson.1");
    forged.write(&planted, 4 << 30);
    give(&planted, STRANGER);
    let mut command = clean(installed("prlimit", "util-linux"));
    command.args(["--as=1000000000"]).arg(ramson_program()).args(["run", "-o"]);
    command.arg(shared.join("build.ramson")).args(["--", "sh", "-c", "exit 7"]);
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    command.env("RAMSON_LIBRARY", library());
    let outcome = finish(&mut command);
    assert_eq!(outcome.status, 7, "{outcome:?}");
}

#[test]
fn foreign_directory_is_left_out() {
    let scratch = Scratch::new();
    // In a directory where everyone may put files, only its owner's files count.
    let script = "mkdir -m 777 /var/tmp/ramson-1501 /var/tmp/ramson-1502\n\
                  for user in 1501 1502; do cp $forged /var/tmp/ramson-$user/1-$user.ramson; done\n\
                  chown -R 1501 /var/tmp/ramson-*\n\
                  for user in 0 1502; do cp $forged /var/tmp/ramson-1501/2-$user.ramson; done\n\
                  chown 1502 /var/tmp/ramson-1501/2-1502.ramson\n";
    for user in ["0", "1502"] {
        let list = private(&scratch, &format!("{script} as {user} $ramson list")).good();
        assert!(!list.text().contains("/1-1502.ramson"), "{list:?}");
        assert!(!list.text().contains("/2-"), "{list:?}");
        assert_eq!(list.text().contains("/1-1501.ramson"), user == "0", "{list:?}");
        said(&list, "/var/tmp/ramson-1502: left out: it belongs to user 1501");
    }
}

#[test]
fn foreign_directory_read_is_bounded() {
    let scratch = Scratch::new();
    let script = "mkdir -m 700 /var/tmp/ramson-1501 /var/tmp/ramson-1502\n\
                  cp $forged /var/tmp/ramson-1502/1-1502.ramson\n\
                  (cd /var/tmp/ramson-1501 && seq -f %.0f-1.ramson 10001 | xargs touch)\n\
                  chown -R 1501 /var/tmp/ramson-1501; chown -R 1502 /var/tmp/ramson-1502\n";
    // A running process's profile is found by what the process has mapped, wherever the file is among the others.
    let lists = "as 1501 $ramson run --interval 4K -- $hides > /var/tmp/said &\n\
                 for _ in $(seq 1000); do grep -q ready /var/tmp/said && break; sleep 0.01; done\n\
                 profile=$(find /var/tmp/ramson-1501 -name '*.ramson' ! -name '*-1.ramson')\n\
                 as USER $ramson list; echo profile $profile\n\
                 name=${profile##*/}; kill -KILL ${name%%-*}; wait || :";
    for (user, is_said) in [("0", true), ("1501", false)] {
        let lists = lists.replace("USER", user);
        let list = private(&scratch, &format!("{script}{lists}")).good();
        let text = list.text();
        assert_eq!(text.contains("/1-1502.ramson"), user == "0", "{list:?}");
        let (rows, profile) = text.trim_end().rsplit_once("profile ").unwrap();
        let is_running = |row: &str| row.contains(profile) && row.contains(" running ");
        assert_eq!(rows.lines().filter(|row| is_running(row)).count(), 1, "{list:?}");
        let line = "/var/tmp/ramson-1501: only the newest 10000 of its files are read";
        assert_eq!(list.remarks.iter().any(|it| it.contains(line)), is_said, "{list:?}");
    }
}

#[test]
fn foreign_links_are_not_followed() {
    let scratch = Scratch::new();
    let script = "mkdir /var/tmp/ramson-1501 /var/tmp/kept\n\
                  cp $forged /var/tmp/kept/7-7.ramson\n\
                  ln -s /var/tmp/kept/7-7.ramson /var/tmp/ramson-1501/7-7.ramson\n\
                  cp $forged /var/tmp/ramson-1501/8-8.ramson\n\
                  chown -R -h 1501 /var/tmp/ramson-1501\n\
                  ln /var/tmp/kept/7-7.ramson /var/tmp/ramson-1501/9-9.ramson\n\
                  $ramson list";
    let list = private(&scratch, script).good();
    let text = list.text();
    let is_shown = |name: &str| text.contains(&format!("/{name}.ramson"));
    let shown = ["7-7", "8-8", "9-9"].map(is_shown);
    assert_eq!(shown, [false, true, false], "{list:?}");
}

#[test]
fn pruning_never_follows_directory_links() {
    let scratch = Scratch::new();
    let script = "mkdir -m 700 /var/tmp/kept\n\
                  cp $forged /var/tmp/kept/7-7.ramson\n\
                  touch -d '-90 days' /var/tmp/kept/7-7.ramson\n\
                  chown -R 1502 /var/tmp/kept\n\
                  ln -s kept /var/tmp/ramson-1502\n\
                  chown -h 1501 /var/tmp/ramson-1502\n\
                  as 1502 $ramson run -- true || :\n\
                  as 1502 $ramson list --prune > /dev/null || :\n\
                  as 1502 $ramson mark $forged deploy || :\n\
                  ls -A /var/tmp/kept";
    let outcome = private(&scratch, script).good();
    assert_eq!(outcome.text(), "7-7.ramson\n", "{outcome:?}");
    said(
        &outcome,
        "/var/tmp/ramson-1502: a symbolic link, which is not followed there: the profile",
    );
    said(&outcome, "/var/tmp/ramson-1502/marks: a symbolic link");
}

#[test]
fn clock_jump_ages_no_profile() {
    let scratch = Scratch::new();
    let prune = |age_of_directory: &str| {
        let script = format!(
            "mkdir -m 700 /var/tmp/ramson-0\n\
             cp $forged /var/tmp/ramson-0/7-7.ramson\n\
             touch -d '-40 days' /var/tmp/ramson-0/7-7.ramson\n\
             touch -d '-{age_of_directory} days' /var/tmp/ramson-0\n\
             $ramson list --prune >&2\n\
             ls /var/tmp/ramson-0"
        );
        private(&scratch, &script).good().text()
    };
    assert_eq!(prune("40"), "7-7.ramson\n");
    assert_eq!(prune("9"), "");
}

#[test]
fn hidden_running_process_keeps_its_file() {
    let scratch = Scratch::new();
    let script = "as 1502 $ramson run --interval 4K -- $hides > /var/tmp/said &\n\
                  for _ in $(seq 1000); do grep -q ready /var/tmp/said && break; sleep 0.01; done\n\
                  profile=$(echo /var/tmp/ramson-1502/*.ramson)\n\
                  name=${profile##*/} pid=${name%%-*}\n\
                  before=$(stat -c %i $profile)\n\
                  as 1502 $ramson list | grep -o running || :\n\
                  as 1502 $ramson report $pid | grep -c 'cannot be read' || :\n\
                  as 1502 $ramson symbolize $profile || :\n\
                  [ $before = $(stat -c %i $profile) ] && echo kept\n\
                  kill -KILL $pid\n\
                  wait || :";
    let outcome = private(&scratch, script);
    assert!(outcome.text().starts_with("running\n"), "{outcome:?}");
    assert!(outcome.text().ends_with("kept\n"), "{outcome:?}");
    said(&outcome, "its process still runs and writes to it");
    assert!(!outcome.remarks.iter().any(|line| line.contains("belongs to user")), "{outcome:?}");
}

#[track_caller]
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn outputs_are_private_without_following_links() {
    let scratch = Scratch::new();
    let script = "umask 0; cd /var/tmp; mkdir out\n\
                  $ramson mark $forged -o out/marked > /dev/null\n\
                  $ramson export $forged -f json -o out/exported\n\
                  $ramson run --trim-every 1s --trim-log out/log -- true\n\
                  $ramson history --all -o out/history.db & pid=$!\n\
                  for _ in $(seq 1000); do [ -s out/history.db ] && break; sleep 0.01; done\n\
                  stat -c '%a %n' out/*\n\
                  kill -INT $pid; wait $pid";
    let modes = private(&scratch, script).text();
    let files: Vec<_> = modes.lines().collect();
    for name in ["marked", "exported", "log", "history.db"] {
        assert!(files.contains(&format!("600 out/{name}").as_str()), "{name}: {modes}");
    }
    assert!(files.iter().all(|file| file.starts_with("600 ")), "{modes}");
    let link = scratch.path("link");
    symlink(scratch.path("target"), &link).unwrap();
    let mut record = ramson(&scratch);
    let recorded = finish(record.args(["history", "--all", "-o"]).arg(&link));
    assert_eq!(recorded.status, 1, "{recorded:?}");
    let mut run = ramson(&scratch);
    run.args(["run", "--trim-every", "1s", "--trim-log"]).arg(&link);
    let run = finish(run.args(["--", "true"]));
    assert_eq!(run.status, 125, "{run:?}");
    assert!(!scratch.path("target").exists());
}

#[test]
fn foreign_file_gets_no_private_names() {
    let scratch = Scratch::new();
    // Where only root can put anything.
    let folder = tempfile::tempdir_in("/opt").unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let binary = bin.join("allocates");
    copy(&program("allocates.c"), &binary);
    assert_eq!(
        finish(ramson(&scratch).args(["run", "--interval", "4K", "--"]).arg(&binary)).status,
        7
    );
    let profile = ramson_tests::profiles_in(&scratch.path("profiles")).remove(0);
    give(&profile, STRANGER);
    let has_names = |file: &Path| {
        let content = fs::read(file).unwrap();
        content.windows(b"allocates.c".len()).any(|bytes| bytes == b"allocates.c")
    };
    let named_when = |mode: u32| {
        fs::set_permissions(&bin, Permissions::from_mode(mode)).unwrap();
        finish(ramson(&scratch).arg("symbolize").arg(&profile)).good();
        assert_eq!(fs::metadata(&profile).unwrap().uid(), STRANGER);
        has_names(&profile)
    };
    assert!(!named_when(0o700));
    let kept = scratch.path("kept");
    finish(ramson(&scratch).arg("symbolize").arg(&profile).arg("-o").arg(&kept)).good();
    assert_eq!((fs::metadata(&kept).unwrap().uid(), mode(&kept)), (0, 0o600));
    assert!(has_names(&kept));
    assert!(named_when(0o755));
}
