import { describe, expect, test } from 'bun:test'
import { type Action, action, isSingle, type Verb } from '../../src/cli/frame/action.ts'
import { UsageFault } from '../../src/cli/frame/failure.ts'
import { actionHelp } from '../../src/cli/frame/help.ts'
import { listenAddress } from '../../src/cli/frame/listen-address.ts'
import { parseInput } from '../../src/cli/frame/parse.ts'
import { verbs } from '../../src/cli/registry.ts'

const sample = action({
  about: 'Sample',
  operands: [
    { name: 'ONE', about: 'the first' },
    { name: 'MORE', about: 'the rest', optional: true, rest: true },
  ],
  options: {
    flag: { kind: 'flag', about: '' },
    text: { kind: 'text', value: 'T', about: '' },
    many: { kind: 'texts', value: 'M', about: '' },
    count: { kind: 'number', value: 'N', min: 1, max: 10, about: '' },
    share: { kind: 'number', value: 'S', min: 0, max: 2, fraction: true, about: '' },
    pick: { kind: 'choice', of: ['a', 'b'], about: '' },
  },
  run: async () => undefined,
})
const single: Action = { ...sample, operands: [{ name: 'ONE', about: 'the first' }] }

const everyVerb = await Promise.all(verbs.map(({ whole }) => whole()))
const everyAction = everyVerb.flatMap(({ name, actions }) =>
  isSingle(actions)
    ? [[name, actions] as const]
    : Object.entries(actions).map(([command, one]) => [`${name} ${command}`.trimEnd(), one] as const),
)

function fault(args: readonly string[], of: Action = sample): string {
  try {
    parseInput(of, args)
  } catch (error) {
    if (error instanceof UsageFault) return error.message
    throw error
  }
  return 'no fault'
}

test('options are read by their kind', () => {
  const input = parseInput(sample, [
    'x',
    '--text=-1',
    '--many',
    'a',
    '--many',
    'b',
    '--count',
    '10',
    '--share',
    '0.5',
    '--pick',
    'a',
    'y',
    'z',
  ])
  expect(input?.operands).toEqual(['x', 'y', 'z'])
  expect(input?.options).toMatchObject({ flag: false, text: '-1', many: ['a', 'b'], count: 10, share: 0.5, pick: 'a' })
  expect(parseInput(sample, ['x'])?.options).toMatchObject({ flag: false, text: undefined, many: [], count: undefined })
  expect(parseInput(sample, ['x', '--json'])?.json).toBe(true)
  expect(parseInput(sample, ['--', '--x'])?.operands).toEqual(['--x'])
})

test.each([
  ['an unknown option', ['x', '--bogus'], 'Unknown option: --bogus'],
  ['an unknown option with a value', ['x', '--bogus=secret'], 'Unknown option: --bogus'],
  ['an unknown short one', ['x', '-q'], 'Unknown option: -q'],
  ['a value that is missing', ['x', '--text'], '--text needs a value'],
  ['a value that looks like an option', ['x', '--text', '--flag'], '--text needs a value'],
  ['a flag with a value', ['x', '--flag=1'], '--flag takes no value'],
  ['one option twice', ['x', '--text', 'a', '--text', 'b'], '--text is given more than once'],
  ['a number out of range', ['x', '--count', '11'], '--count must be a whole number from 1 to 10'],
  ['a number that is none', ['x', '--count', '1e0'], '--count must be a whole number from 1 to 10'],
  ['a fraction where whole ones are meant', ['x', '--count', '1.5'], '--count must be a whole number'],
  ['a word that is no choice', ['x', '--pick', 'c'], '--pick must be one of a, b'],
  ['an operand that is missing', [], 'ONE is missing. the first'],
  ['an empty operand', [''], 'ONE is missing. the first'],
])('%s is a fault', (_, args, message) => {
  expect(fault(args)).toStartWith(message)
})

test('an operand too many is a fault', () => {
  expect(fault(['x', 'y'], single)).toBe('Unexpected argument: y')
})

describe('§24: every command', () => {
  test('is there', () => {
    expect(everyAction.map(([path]) => path)).toEqual([
      'serve',
      'service install',
      'service uninstall',
      'service status',
      'node',
      'node install',
      'node uninstall',
      'node status',
      'node payee',
      ...['create', 'list', 'revoke'].map((command) => `node keys ${command}`),
      'status',
      'alerts',
      'logs',
      'doctor',
      'chat',
      'connect',
      'seal',
      ...['submit', 'show', 'export', 'list', 'cancel'].map((command) => `jobs ${command}`),
      ...['list', 'set', 'alias', 'remove'].map((command) => `models ${command}`),
      ...['pull', 'pulls', 'cancel-pull', 'copy', 'load', 'unload', 'logs'].map((command) => `models ${command}`),
      'plan',
      ...['add', 'discover', 'enroll', 'refuse', 'tokens', 'withdraw'].map((command) => `nodes ${command}`),
      ...['list', 'join', 'show', 'set', 'owner', 'drain', 'resume'].map((command) => `nodes ${command}`),
      ...['sleep', 'wake', 'revoke', 'remove'].map((command) => `nodes ${command}`),
      ...['create', 'list', 'set', 'rotate', 'revoke'].map((command) => `keys ${command}`),
      ...['create', 'list', 'show', 'update', 'token', 'webhook-secret'].map((command) => `customers ${command}`),
      ...['sessions', 'end', 'create', 'list', 'revoke'].map((command) => `admins ${command}`),
      ...['add', 'deduct'].map((command) => `credits ${command}`),
      ...['list', 'create', 'held', 'reject', 'release', 'submit', 'proofs'].map((command) => `payouts ${command}`),
      ...['tail', 'chain', 'books', 'export', 'name-rows'].map((command) => `audit ${command}`),
      ...['export', 'promise'].map((what) => `receipts ${what}`),
      ...['receipt', 'payout', 'checkpoint', 'audit', 'promise', 'envelope', 'attestation', 'file'].map(
        (what) => `verify ${what}`,
      ),
      'monitor',
      'explain',
      'chain deploy',
      'backup',
      'restore',
      'update',
      'reset-admin',
      'fake-node',
    ])
  })

  test.each(everyAction)('%s has --help, --json and refuses unknown flags', (path, one) => {
    expect(parseInput(one, ['--help'])).toBeNull()
    expect(parseInput(one, ['-h'])).toBeNull()
    expect(actionHelp(path, one)).toContain('--json')
    expect(fault(['x', '--bogus'], one)).toBe('Unknown option: --bogus')
  })

  test('is there whole when what was written for its verb is loaded alone', async () => {
    const written = await Promise.all(verbs.map(({ load }) => load()))
    const names = ({ actions }: Verb) => (isSingle(actions) ? [] : Object.keys(actions))
    const apart = written.map(names)
    const together = everyVerb.map(names)
    expect(together.flat().length).toBeGreaterThan(apart.flat().length + 20)
    for (const [at, own] of apart.entries()) {
      const followed = together[at]?.filter((name) => !own.includes(name)) ?? []
      const taken = followed.filter((name) => own.some((word) => word !== '' && name.startsWith(`${word} `)))
      expect([written[at]?.name, taken]).toEqual([written[at]?.name, []])
    }
  })

  test.each(
    everyAction
      // What `node keys` does stays on its machine: no gateway keeps a reason for it.
      .filter(([path]) => !path.startsWith('node '))
      .filter(([path]) =>
        / (create|update|token|webhook-secret|rotate|revoke|add|enroll|withdraw|set|drain|resume|remove)$/.test(path),
      ),
  )('§16: %s takes a reason', (_, one) => {
    expect(Object.keys(one.options)).toContain('reason')
  })
})

test.each([
  ['127.0.0.1:7072', '127.0.0.1', 7072],
  ['[::1]:7072', '::1', 7072],
  [':7072', '127.0.0.1', 7072],
  ['0', '127.0.0.1', 0],
  ['host.example:65535', 'host.example', 65_535],
])('--listen %s', (text, hostname, port) => {
  expect(listenAddress(text)).toEqual({ hostname, port })
})

test.each(['', 'host', 'host:', 'host:65536', '::1:80', 'http://host:80'])('--listen %p is refused', (text) => {
  expect(() => listenAddress(text)).toThrow(UsageFault)
})
