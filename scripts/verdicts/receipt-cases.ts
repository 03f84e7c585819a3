import { type Bases, type Case, drop, type Fields, fileOf, rowsOf, set, text } from './case.ts'
import { ed25519Order } from './edges.ts'

const changedValue = (value: unknown) =>
  typeof value === 'number' ? value + 1 : typeof value === 'string' ? `${value}0` : 'something'

/** Each fact changed, and each left out. */
export function factCases(made: Bases, base: string): readonly Case[] {
  const facts = Object.entries(fileOf(made, base).receipt as Fields)
  return rowsOf(
    base,
    facts.flatMap(([name, value]) => [
      [`another ${name}`, set(['receipt', name], changedValue(value)), false],
      [`no ${name}`, drop('receipt', name), false],
    ]),
  )
}

const flip = (signature: string, at: number) => {
  const bytes = Buffer.from(signature, 'base64url')
  bytes[at] = (bytes[at] ?? 0) ^ 1
  return bytes.toString('base64url')
}
/** The same signature with the group's order added to S: it would hold for whoever does not bound S. */
function withOrder(signature: string): string {
  const bytes = Buffer.from(signature, 'base64url')
  let sum = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString('hex')}`) + ed25519Order
  for (let at = 32; at < 64; at++, sum >>= 8n) bytes[at] = Number(sum & 255n)
  return bytes.toString('base64url')
}
const lastLetter = (signature: string) =>
  `${signature.slice(0, -1)}${signature.endsWith('g') ? 'h' : `${signature.at(-1) === 'A' ? 'B' : 'x'}`}`

export function signatureCases(made: Bases): readonly Case[] {
  const at = ['log', 'signature_ed25519']
  const own = String((fileOf(made, 'gateway').log as Fields).signature_ed25519)
  const another = String((fileOf(made, 'bound').log as Fields).signature_ed25519)
  const byNode = String(fileOf(made, 'node').signature_ed25519)
  return [
    ...rowsOf('gateway', [
      ['as it is', [], true],
      ['a bit of R', set(at, flip(own, 3)), false],
      ['a bit of S', set(at, flip(own, 40)), false],
      ['the last bit of S', set(at, flip(own, 63)), false],
      ['S with the order added', set(at, withOrder(own)), false],
      ['the signature of another receipt', set(at, another), false],
      ['the signature of a node', set(at, byNode), false],
      ['a signature with padding', set(at, `${own}==`), false],
      ['a signature with unused bits', set(at, lastLetter(own)), false],
      ['a short signature', set(at, own.slice(0, 80)), false],
      ['an empty signature', set(at, ''), false],
      ['no signature', set(at, null), false],
      ['a signature that is a list', set(at, [own]), false],
      ['the signature at the other place', [...set(['signature_ed25519'], own), ...set(at, null)], true],
      ['a wrong one at the other place', set(['signature_ed25519'], flip(own, 1)), false],
      ['zeros', set(at, 'A'.repeat(86)), false],
      [
        'a cutoff does not help the gateway',
        [...set(at, null), ...set(['log', 'cutoff'], (fileOf(made, 'unsigned').log as Fields).cutoff)],
        false,
      ],
      ['another hash', set(['receipt_hash'], made.entryHash.bound), false],
      ['the hash in capitals', set(['receipt_hash'], made.entryHash.gateway.toUpperCase().replace('0X', '0x')), false],
      ['no hash', drop('receipt_hash'), false],
      ['no facts', set(['receipt'], {}), false],
      ['facts in a list', set(['receipt'], [fileOf(made, 'gateway').receipt]), false],
      ['another object', set(['object'], 'svc.note'), false],
      ['a member that nobody knows', set(['note'], 'hello'), true],
      ['a fact that nobody knows', set(['receipt', 'note'], 'hello'), false],
      ['no key known', [], false, 'nothing'],
      ['a stranger’s key', [], false, 'stranger_key'],
      ['a remembered key', [], true, 'remembered_key'],
      ['the key of a later name', [], false, 'later_key'],
    ]),
    ...rowsOf('node', [
      ['as it is', [], true],
      ['the node not known', [], false, 'policy_none'],
      ['no signature', set(['signature_ed25519'], null), false],
      ['the signature at the log’s place', [...set(['signature_ed25519'], null), ...set(at, byNode)], true],
      ['signed by the log', set(['signature_ed25519'], own), false],
      ['issued by the gateway', set(['receipt', 'issuer'], 'gateway'), false],
      ['another key beside it', set(['public_key'], 'A'.repeat(43)), true],
      [
        'in the place of another receipt',
        set(['log', 'log_proof'], (fileOf(made, 'gateway').log as Fields).log_proof),
        false,
      ],
    ]),
  ]
}

export function openedCases(): readonly Case[] {
  const at = (...path: readonly (string | number)[]) => ['opened', ...path]
  const choice = at('response', 'choices', 0)
  return rowsOf('bound', [
    ['as it is', [], true],
    ['another request', set(at('request', 'model'), 'another'), false],
    ['a request with one member more', set(at('request', 'user'), 'x'), false],
    ['a request with another fraction', set(at('request', 'temperature'), 0.25), false],
    ['a request with the same number otherwise', text('1e-7', '0.0000001'), true],
    ['a request with a large number in digits', text('4e+21', `4${'0'.repeat(21)}`), true],
    ['an empty request', set(at('request'), {}), false],
    ['a request that is null', set(at('request'), null), false],
    ['no request', drop(...at('request')), true],
    ['another answer', set([...choice, 'message', 'content'], 'another'), false],
    ['an answer with what says nothing', set([...choice, 'message', 'tool'], ''), true],
    ['an answer with one member more', set([...choice, 'message', 'tool'], 'x'), false],
    ['an answer with another end', set([...choice, 'finish_reason'], 'length'), false],
    ['an answer without its end', drop(...choice, 'finish_reason'), false],
    ['no choice', set(at('response', 'choices'), []), false],
    ['no answer', drop(...at('response')), true],
    ['another model', set(at('upstream_model'), 'another'), false],
    ['a model that is no text', set(at('upstream_model'), 7), true],
    ['another salt', set(at('salt'), 'A'.repeat(43)), false],
    ['a short salt', set(at('salt'), 'AAAA'), false],
    ['no salt', drop(...at('salt')), false],
    ['null in place of all', set(at(), null), false],
    ['nothing shown', drop(...at()), true],
    ['half of a pair in the request', text('Say ☂.', 'Say \\ud800'), false],
    ['half of a pair beside it', text('"opened":{', '"opened":{"note":"\\udc00",'), false],
  ])
}

export function besideCases(made: Bases): readonly Case[] {
  const cutoff = (name: string, value: unknown) => set(['log', 'cutoff', name], value)
  return [
    ...rowsOf('beside', [
      ['as it is', [], true],
      ['other facts', set(['node_receipt', 'receipt', 'completion_tokens'], 1), false],
      ['another hash', set(['node_receipt', 'receipt_hash'], made.entryHash.bound), false],
      ['a version that nobody knows', set(['node_receipt', 'receipt', 'v'], 'svc-receipt-v0'), false],
      ['another signature, which proves nothing', set(['node_receipt', 'signature_ed25519'], 'A'.repeat(86)), true],
      ['no hash, and so no receipt', drop('node_receipt', 'receipt_hash'), true],
    ]),
    ...rowsOf('unsigned', [
      ['as it is', [], true],
      ['no cutoff', set(['log', 'cutoff'], null), false],
      ['a signature that does not hold', set(['signature_ed25519'], 'A'.repeat(86)), false],
      ['a cutoff before it', cutoff('size', 0), false],
      ['a cutoff elsewhere', cutoff('size', 4), false],
      ['a cutoff of none', cutoff('unsigned', 0), false],
      ['a cutoff of more', cutoff('unsigned', 2), false],
      ['a cutoff with another root', cutoff('root', 'ab'.repeat(32)), false],
      ['a cutoff with another hash', cutoff('unsigned_hash', `0x${'ab'.repeat(32)}`), false],
      ['a cutoff without proof', cutoff('proof', []), false],
      ['a cutoff whose size is a text', cutoff('size', '3'), false],
      ['a gateway’s receipt', set(['receipt', 'issuer'], 'gateway'), false],
    ]),
  ]
}

/** What the gateway says of the entry's time warns, and makes nothing invalid. */
export function timeCases(): readonly Case[] {
  const logged = (value: unknown) => set(['log', 'logged_at'], value)
  return [
    ...rowsOf('timed', [
      ['as it is', [], true],
      ['in the log a day later', logged('2026-11-21T16:00:00.000Z'), true],
      ['in the log a day before', logged('2026-11-19T16:00:00.000Z'), true],
      ['no time of its entry', drop('log', 'logged_at'), true],
      ['null as the time of its entry', logged(null), true],
      ['a day that no month has', logged('2026-11-31T16:00:00.000Z'), true],
      ['a time of its entry that is none', logged('yesterday'), true],
      ['a number as the time of its entry', logged(1_763_654_400), true],
      ['no signature', set(['log', 'signature_ed25519'], null), false],
    ]),
    ...rowsOf('untimed', [['a v3 that does not say when it was issued', [], false]]),
  ]
}
