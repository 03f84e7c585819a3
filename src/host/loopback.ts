const pattern = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[?::1\]?)$/

/** Only programs on this machine can reach it; an IPv6 address with its brackets, as in a URL, or without. */
export const isLoopback = (hostname: string) => pattern.test(hostname)
