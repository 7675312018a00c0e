//! Network cards, who has them, and what handing one over needs.

use std::os::unix::fs::MetadataExt;

use super::root::Root;
use super::{Finding, list};

const DEVICES: &str = "sys/bus/pci/devices";
/// Kernel drivers that hand a device over, as modules are called.
const HANDING_OVER: [&str; 3] = ["vfio_pci", "uio_pci_generic", "igb_uio"];

/// One card.
struct Nic {
    address: String,
    /// Kernel driver.
    driver: Option<String>,
    interfaces: Vec<String>,
}

fn nics(root: &Root) -> Vec<Nic> {
    let is_nic = |address: &String| {
        root.read(&format!("{DEVICES}/{address}/class")).is_some_and(|c| c.starts_with("0x02"))
    };
    root.names(DEVICES)
        .into_iter()
        .filter(is_nic)
        .map(|address| {
            let at = format!("{DEVICES}/{address}");
            let mut interfaces = root.names(&format!("{at}/net"));
            for below in root.names(&at).iter().filter(|n| n.starts_with("virtio")) {
                interfaces.extend(root.names(&format!("{at}/{below}/net")));
            }
            let driver = root.link(&format!("{at}/driver"));
            Nic { address, driver, interfaces }
        })
        .collect()
}

pub(super) fn check(root: &Root) -> Vec<Finding> {
    let nics = nics(root);
    if nics.is_empty() {
        return vec![Finding::ok("nics", "none on PCI; software devices need none")];
    }
    let mut out: Vec<Finding> = nics.iter().map(|nic| card(root, nic)).collect();
    out.push(modules(root));
    out.push(iommu(root));
    out.extend(groups(root));
    out
}

fn card(root: &Root, nic: &Nic) -> Finding {
    let Nic { address, driver, interfaces } = nic;
    let of =
        if interfaces.is_empty() { String::new() } else { format!(" as {}", list(interfaces)) };
    let Some(driver) = driver else {
        return Finding::advice(
            "nics",
            format!("{address} has no kernel driver"),
            format!("scripts/host bind {address}"),
        );
    };
    if HANDING_OVER.contains(&driver.replace('-', "_").as_str()) {
        return Finding::ok("nics", format!("{address} is handed over by {driver}"));
    }
    let routes = root.read("proc/net/route").unwrap_or_default();
    let carries = |line: &str| {
        let mut fields = line.split_whitespace();
        let name = fields.next().unwrap_or_default();
        interfaces.iter().any(|i| i == name) && fields.next() == Some("00000000")
    };
    let more = if routes.lines().skip(1).any(carries) {
        ", which carries the default route: keep it there"
    } else {
        ""
    };
    Finding::ok("nics", format!("{address} is the kernel's by {driver}{of}{more}"))
}

fn modules(root: &Root) -> Finding {
    let loaded: Vec<String> = HANDING_OVER
        .iter()
        .filter(|m| root.exists(&format!("sys/module/{m}")))
        .map(|m| (*m).to_owned())
        .collect();
    if loaded.is_empty() {
        return Finding::advice(
            "modules",
            "no kernel module that hands NICs over",
            "modprobe vfio-pci",
        );
    }
    Finding::ok("modules", list(&loaded))
}

fn iommu(root: &Root) -> Finding {
    let groups = root.names("sys/kernel/iommu_groups").len();
    if groups > 0 {
        return Finding::ok("iommu", format!("{groups} groups"));
    }
    let unsafe_mode = root.read("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    if matches!(unsafe_mode.as_deref(), Some("Y" | "1")) {
        return Finding::advice(
            "iommu",
            "off, and vfio is told to do without: a NIC can write to all memory",
            "turn it on in the firmware, boot with intel_iommu=on iommu=pt",
        );
    }
    Finding::advice(
        "iommu",
        "off: vfio-pci will not take a NIC",
        "boot with intel_iommu=on iommu=pt, or: \
         echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
    )
}

/// Groups that belong to somebody else.
fn groups(root: &Root) -> Option<Finding> {
    let user = root.field("proc/self/status", "Uid")?;
    // Real, effective, saved and file system id.
    let user: u32 = user.split_whitespace().nth(1)?.parse().ok()?;
    let closed: Vec<String> = root
        .names("dev/vfio")
        .into_iter()
        .filter(|name| {
            let meta = std::fs::metadata(root.path(&format!("dev/vfio/{name}")));
            meta.is_ok_and(|m| user != 0 && m.uid() != user && m.mode() & 0o006 != 0o006)
        })
        .collect();
    if closed.is_empty() {
        return None;
    }
    Some(Finding::advice(
        "vfio",
        format!("no permission for /dev/vfio: {}", list(&closed)),
        format!("sudo chown $USER /dev/vfio/{}", closed.first()?),
    ))
}
