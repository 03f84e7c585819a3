import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { createEndpointRules } from '../../../src/actors/agents/endpoint-address.ts'
import { CallSignal } from '../../../src/transport/call-signal.ts'
import { createDirectTransport } from '../../../src/transport/http1/direct.ts'
import { isGlobalAddress } from '../../../src/transport/public-address.ts'
import { waitLimitMs } from '../../support/run/limits.ts'

const special = `0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1
  192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
  :: ::1 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 64:ff9b::a00:1 100::1 2001::1 2001:db8::1 2002::1 fc00::1
  fd00::1 fe80::1 fec0::1 ff02::1 3fff::1 ::7f00:1`.split(/\s+/)
const global = '1.1.1.1 8.8.8.8 100.63.255.255 172.15.0.1 172.32.0.1 192.167.0.1 2606:4700::1111 2a00:1450::1'.split(
  ' ',
)

test('§22: an address is global only outside all special-purpose registries', () => {
  expect(special.filter(isGlobalAddress)).toEqual([])
  expect(global.filter((address) => !isGlobalAddress(address))).toEqual([])
  fc.assert(fc.property(fc.string(), (text) => typeof isGlobalAddress(text) === 'boolean'))
})

const names: Readonly<Record<string, readonly string[]>> = {
  'good.example': ['1.1.1.1', '2606:4700::1111'],
  'mixed.example': ['1.1.1.1', '10.0.0.1'],
  'inner.example': ['10.0.0.7'],
  'empty.example': [],
}
const look = async (name: string) => {
  const found = names[name]
  if (found === undefined) throw new Error('ENOTFOUND')
  return found
}
const rules = createEndpointRules(['10.1.0.0/16', 'fd12::/16'], look)

test('§22: an endpoint is https to a global address, or inside an allowed network; nothing but scheme, host and port', async () => {
  const good = {
    'https://good.example': 'https://good.example',
    'https://good.example:8443/': 'https://good.example:8443',
    'https://1.1.1.1': 'https://1.1.1.1',
    'http://10.1.2.3:7071': 'http://10.1.2.3:7071',
    'https://10.1.2.3': 'https://10.1.2.3',
    'http://[fd12::5]:7071': 'http://[fd12::5]:7071',
  }
  for (const [url, kept] of Object.entries(good)) expect(await rules.check(url)).toBe(kept)
  const bad = `http://good.example http://1.1.1.1 https://mixed.example https://inner.example https://10.2.0.1
    https://127.0.0.1 https://2130706433 https://0x7f.1 https://[::1] https://[::ffff:127.0.0.1] https://empty.example
    https://nowhere.example ftp://good.example https://user@good.example https://good.example/v1
    https://good.example/?a https://good.example/#a nonsense`.split(/\s+/)
  for (const url of bad) {
    const refused = await rules.check(url).then(
      () => null,
      (error: { code?: string }) => error.code,
    )
    expect([url, refused]).toEqual([url, 'invalid_request'])
  }
})

test('§22: each new connection goes to the address that was checked, and to none when the name has come to mean another', async () => {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => new Response(request.headers.get('host')),
  })
  const here = createEndpointRules(['127.0.0.0/8'], async () => [address])
  let address = '127.0.0.1'
  const url = `http://agent.example:${server.port}`
  const transport = createDirectTransport({ url, apiKey: null, connectTimeoutMs: waitLimitMs, resolve: here.resolve })
  const first = await transport.fetch('/', { method: 'GET', signal: new CallSignal() })
  expect(await first.text(100)).toBe(`agent.example:${server.port}`)
  transport.close()
  address = '10.0.0.1'
  const moved = createDirectTransport({ url, apiKey: null, connectTimeoutMs: waitLimitMs, resolve: here.resolve })
  await expect(moved.fetch('/', { method: 'GET', signal: new CallSignal() })).rejects.toMatchObject({
    failure: 'refused',
  })
  moved.close()
  await server.stop(true)
})

test('a name server that does not answer is cut off by the connect timeout, and by an abort at once', async () => {
  const resolve = () => new Promise<string>(() => {})
  const options = { url: 'http://agent.example', apiKey: null, resolve }
  const slow = createDirectTransport({ ...options, connectTimeoutMs: 20 })
  await expect(slow.fetch('/', { method: 'GET', signal: new CallSignal() })).rejects.toMatchObject({ failure: 'dns' })
  const patient = createDirectTransport({ ...options, connectTimeoutMs: 60_000 })
  const signal = new CallSignal()
  const call = patient.fetch('/', { method: 'GET', signal })
  signal.abort()
  await expect(call).rejects.toMatchObject({ failure: 'aborted' })
})
