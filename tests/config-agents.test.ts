import { expect, test } from 'bun:test'
import { readConfig } from '../src/settings/config.ts'

const faultsOf = (env: Readonly<Record<string, string>>) => {
  const read = readConfig(env)
  return 'faults' in read ? read.faults : []
}
const seed = Buffer.alloc(32, 7)

test('§25: router seeds are 32 bytes in hex, base64 or base64url, one or several; a fault shows no value', () => {
  const forms = [seed.toString('hex'), seed.toString('base64'), seed.toString('base64url')]
  for (const form of [...forms, forms.join(', ')]) expect(faultsOf({ SVC_ROUTER_KEY: form })).toEqual([])
  for (const form of ['short', `${forms[0]}00`, `${forms[0]},`, `${forms[1]}=`]) {
    const faults = faultsOf({ SVC_ROUTER_KEY: form })
    expect(faults).toEqual(['SVC_ROUTER_KEY must be a list of 32-byte seeds in base64 or hex'])
  }
  const many = Array.from({ length: 9 }, () => forms[0]).join(',')
  expect(faultsOf({ SVC_ROUTER_KEY: many })).toEqual(['SVC_ROUTER_KEY may hold at most 8 seeds'])
})

test('§25: with DATABASE_URL the router key is required like the other secrets', () => {
  expect(faultsOf({ DATABASE_URL: 'postgres://x' })).toContain('SVC_ROUTER_KEY is required with DATABASE_URL')
})

test('§26: gateways of one pool need a secret and an address, or neither', () => {
  const pool = { SVC_CLUSTER_SECRET: 'sixteen-and-more', SVC_PEER_URL: 'http://10.0.0.2:7070' }
  expect(faultsOf(pool)).toEqual([])
  for (const alone of ['SVC_CLUSTER_SECRET', 'SVC_PEER_URL'] as const) {
    expect(faultsOf({ [alone]: pool[alone] })).toEqual(['SVC_CLUSTER_SECRET and SVC_PEER_URL must be set together'])
  }
  const short = faultsOf({ ...pool, SVC_CLUSTER_SECRET: 'fifteen-and-les' })
  expect(short).toEqual(['SVC_CLUSTER_SECRET must have at least 16 characters'])
  for (const bad of ['10.0.0.2:7070', 'ftp://h', 'http://u:p@h', 'http://h/path', 'http://h?a']) {
    expect(faultsOf({ ...pool, SVC_PEER_URL: bad })).toEqual(['SVC_PEER_URL must be a URL like http://10.0.0.2:7070'])
  }
})

test('§25: networks are addresses with a prefix that fits', () => {
  for (const good of ['10.0.0.0/8', 'fd00::/8, 192.168.1.7', '::1/128']) {
    expect(faultsOf({ SVC_ENDPOINT_NETWORKS: good })).toEqual([])
  }
  for (const bad of ['10.0.0.0/33', 'fd00::/129', 'example.com', '10.0.0/8', '10.0.0.0/8/8', '10.0.0.0/x']) {
    expect(faultsOf({ SVC_ENDPOINT_NETWORKS: bad })).toEqual([
      'SVC_ENDPOINT_NETWORKS must be a list of networks like 10.0.0.0/8',
    ])
  }
})
