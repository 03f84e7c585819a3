import { expect, test } from 'bun:test'
import { readConfig, requiredSecrets } from '../src/settings/config.ts'

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

test('§25: with DATABASE_URL each secret is asked for by its name, and so is an admin token', () => {
  const named = [
    'SVC_TOKEN_PEPPER',
    'SVC_AUDIT_KEY',
    'SVC_ROUTER_KEY',
    'SVC_WEBHOOK_KEY',
    'SVC_LOG_KEY',
    'SVC_SECRETS_KEY',
  ]
  expect<readonly string[]>([...requiredSecrets].sort()).toEqual(named.sort())
  const faults = faultsOf({ DATABASE_URL: 'postgres://x' })
  expect(faults.filter((fault) => fault.includes('is required with DATABASE_URL'))).toEqual([
    ...requiredSecrets.map((name) => `${name} is required with DATABASE_URL`),
    'SVC_ADMIN_TOKENS is required with DATABASE_URL, unless SVC_BOOTSTRAP is true',
  ])
  expect(faultsOf({})).toEqual([])
})

test('§25: router, webhook and log keys are never the same, wherever in their lists they stand', () => {
  const keys = ['SVC_ROUTER_KEY', 'SVC_WEBHOOK_KEY', 'SVC_LOG_KEY'] as const
  const own = Object.fromEntries(keys.map((name, at) => [name, Buffer.alloc(32, at + 1).toString('hex')]))
  expect(faultsOf(own)).toEqual([])
  for (const [one, other] of [
    [keys[0], keys[1]],
    [keys[0], keys[2]],
    [keys[1], keys[2]],
  ] as const) {
    const shared = {
      ...own,
      [one]: `${own[one]},${seed.toString('hex')}`,
      [other]: `${seed.toString('hex')},${own[other]}`,
    }
    const [fault = '', ...more] = faultsOf(shared)
    expect([one, other, more]).toEqual([one, other, []])
    expect(fault).toMatch(/must be (?:another key|different keys)/)
    expect(fault).not.toContain(seed.toString('hex'))
  }
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

test('§36: the time until which the log takes receipts without a mark is a time, and at most 30 days away', () => {
  const fault = (at: string) => faultsOf({ SVC_LOG_PLAIN_UNTIL: at })
  const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()
  for (const at of ['2020-01-01T00:00:00Z', inDays(0), inDays(29)]) expect(fault(at)).toEqual([])
  for (const at of [
    'tomorrow',
    '2026-11-25',
    '2026-11-25T12:00:00',
    '2026-13-45T12:00:00Z',
    '2026-11-25T12:00:00+01:00',
  ]) {
    expect(fault(at)).toEqual(['SVC_LOG_PLAIN_UNTIL must be a time like 2026-11-25T12:00:00Z'])
  }
  for (const at of [inDays(31), '2999-01-01T00:00:00Z']) {
    expect(fault(at)).toEqual(['SVC_LOG_PLAIN_UNTIL may be at most 30 days from now'])
  }
})
