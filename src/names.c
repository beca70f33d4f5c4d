/* How a static program looks up the names of hosts: in /etc/hosts, then by DNS.
 *
 * Where /etc/nsswitch.conf asks for more (resolve, mymachines, mdns), glibc opens the shared libraries of the machine for
 * it, and a static program that meets those of another glibc crashes. So the file is not asked. Nothing is lost: what those modules
 * add is reached by DNS too, or has no place in the address of a store or a consumer.
 */
#include <nss.h>

__attribute__((constructor)) static void look_up_names(void)
{
    __nss_configure_lookup("hosts", "files dns");
}
