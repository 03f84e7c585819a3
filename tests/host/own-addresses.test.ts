import { expect, test } from 'bun:test'
import type { NetworkInterfaceInfo } from 'node:os'
import { callableHost, everyAddress, isWildcard, ownAddresses } from '../../src/host/own-addresses.ts'
import { welcome } from '../../src/host/welcome.ts'
import { hostFault } from '../../src/http/ollama/allowed-hosts.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { scoped } from '../support/run/fixture.ts'

const at = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  internal,
  family: 'IPv4',
  netmask: '255.255.255.0',
  mac: '00:00:00:00:00:00',
  cidr: null,
})
const interfaces = {
  lo: [at('127.0.0.1', true)],
  docker0: [at('172.17.0.1')],
  wlan0: [at('169.254.3.4'), at('192.168.1.20')],
  tun0: [at('100.64.0.7')],
}

test('§25: a wildcard is called by the address of the house first, by a bridge of containers last', () => {
  expect(ownAddresses(interfaces)).toEqual(['192.168.1.20', '100.64.0.7', '172.17.0.1'])
  expect(['0.0.0.0', '::', '[::]', '127.0.0.1', 'box'].map(isWildcard)).toEqual([true, true, true, false, false])
  expect(callableHost('0.0.0.0', interfaces)).toBe('192.168.1.20')
  expect(callableHost('box', interfaces)).toBe('box')
  expect(callableHost('::', { lo: [at('127.0.0.1', true)] })).toBe('127.0.0.1')
})

test('§25: the welcome names every address, never the wildcard, and warns', () => {
  const facts = { models: [], notes: [], credentials: null, newKey: null }
  const text = welcome({
    ...facts,
    baseUrl: 'http://192.168.1.20:7070',
    host: '0.0.0.0',
    otherUrls: ['http://100.64.0.7:7070'],
  })
  expect(text).toContain('OpenAI base http://192.168.1.20:7070/v1\n')
  expect(text).toContain('Also at     http://100.64.0.7:7070')
  expect(text).not.toContain('http://0.0.0.0')
  expect(text).toContain('Warning: the gateway listens on 0.0.0.0 without TLS')
})

test('§25: the first start shows the key where no model answers yet, too: who runs a container cannot read its file', () => {
  const facts = {
    credentials: null,
    baseUrl: 'http://box:7070',
    host: 'box',
    otherUrls: [],
    notes: [],
  }
  const key = 'svc_gateway_made_now'
  const shown = (models: readonly string[], newKey: string | null) =>
    welcome({ ...facts, models, newKey }).split(key).length - 1
  expect([shown([], key), shown(['m'], key), shown([], null), shown(['m'], null)]).toEqual([1, 1, 0, 0])
})

test('§25: a gateway that is bound to a wildcard names an address that can be called', async () => {
  const launched = Promise.withResolvers<string>()
  const { start } = await import('../../src/main.ts')
  await using gateway = await scoped(
    startTestGateway({
      env: { SVC_HOST: '0.0.0.0' },
      launch: async (env) => {
        const running = await start(env, { quiet: true })
        launched.resolve(running.url)
        return { url: running.url.replace(/\/\/[^:]+:/, '//127.0.0.1:'), stop: () => running.stop() }
      },
    }),
  )
  const url = await launched.promise
  expect(new URL(url).hostname).toBe(callableHost('0.0.0.0'))
  const index = (await (await fetch(`${gateway.url}/v1/api`)).json()) as { base_url: string }
  expect(index.base_url).toBe(url)
})

test('§28: Ollama’s listener answers to every address of this computer, not to the likeliest few', () => {
  const many = Array.from({ length: 12 }, (_, index) => at(`10.0.0.${index}`))
  const six: NetworkInterfaceInfo = { ...at('fd00::1'), family: 'IPv6', scopeid: 0 }
  expect(everyAddress({ eth0: [...many, six] })).toEqual([...many.map(({ address }) => address), '[fd00::1]'])
  const fault = hostFault('0.0.0.0', [])
  for (const address of everyAddress()) {
    expect(fault(new Request('http://gateway/', { headers: { host: `${address}:11434` } }))).toBeNull()
  }
  const named = new Request('http://gateway/', { headers: { host: 'evil.example' } })
  expect(fault(named)?.code).toBe('misdirected_request')
})
