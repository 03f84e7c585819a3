const pattern = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[?::1\]?)$/

/** True for an address that only programs on this computer can reach. An IPv6 address may have brackets as in a URL. */
export const isLoopback = (hostname: string) => pattern.test(hostname)
