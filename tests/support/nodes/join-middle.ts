import { inTheMiddle, startJoinRelay } from './join-relay.ts'

/** Somebody in the middle, to be run on a computer of its own: the gateway's URL, and the address that agents are told. */
const [gatewayUrl = '', hostname = '', port = ''] = process.argv.slice(2)
const { url } = startJoinRelay(gatewayUrl, inTheMiddle(gatewayUrl).meddle, { hostname, port: Number(port) })
process.stdout.write(`relays ${url}\n`)
