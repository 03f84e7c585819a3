import { type NoteKey, noteKinds, parseNoteKey } from '../log/note.ts'

/** A trust policy of C2SP `tlog-policy`: which logs count, and which witnesses must have cosigned a checkpoint of one. */

export interface PolicyLog {
  readonly key: NoteKey
  /** null: the line has none. */
  readonly url: string | null
}

export interface PolicyWitness {
  /** Has a meaning inside the policy alone; the key has a name of its own. */
  readonly name: string
  readonly key: NoteKey
  readonly url: string | null
}

/** A witness, or at least `least` of the members. */
type Quorum =
  | { readonly kind: 'witness'; readonly name: string }
  | { readonly kind: 'group'; readonly name: string; readonly least: number; readonly members: readonly Quorum[] }

export interface Policy {
  /** Empty: the logs are known from elsewhere. */
  readonly logs: readonly PolicyLog[]
  readonly witnesses: readonly PolicyWitness[]
  /** null: `quorum none`, which asks for no witness. */
  readonly quorum: Quorum | null
}

/** A text that is no policy. `line`: from 1 on; 0: of the whole. */
export class PolicyFault extends Error {
  constructor(
    readonly line: number,
    readonly detail: string,
  ) {
    super(`The policy cannot be used: ${line === 0 ? '' : `line ${line}: `}${detail}`)
  }
}

export const policyBytesMax = 256 * 1024
/** Of logs, of witnesses and of groups, each. C2SP asks for 32 at least. */
const namesMax = 256
const noName = 'none'
/** The key's kind, as the first byte of a key has it: what C2SP has besides Ed25519. */
const laterKind = 6

/** What the lines before have defined. */
interface Draft {
  readonly logs: PolicyLog[]
  readonly witnesses: PolicyWitness[]
  readonly named: Map<string, Quorum>
  /** Names that are a member of a group already. */
  readonly taken: Set<string>
  groups: number
  quorum: Quorum | null | undefined
}

function keyIn(text: string | undefined, kind: number, line: number): NoteKey {
  const key = parseNoteKey(text ?? '')
  if (key?.kind === kind) return key
  const what = kind === noteKinds.signature ? 'of a log (kind 1, Ed25519)' : 'of a witness (kind 4, Ed25519)'
  const encoded = (text ?? '').split('+').slice(2).join('+')
  // The kind's six bits and two more stand in the first two letters.
  const isLater = encoded.startsWith('B') && encoded.length > 1_000
  const later = isLater ? `; keys of kind ${laterKind} (ML-DSA-44) cannot be checked here` : ''
  throw new PolicyFault(line, `this is no key ${what}, written as NAME+HASH+BASE64${later}`)
}

const isSame = (a: NoteKey, b: NoteKey) => a.publicKey.every((byte, at) => byte === b.publicKey[at])

function bound(count: number, what: string, line: number): void {
  if (count >= namesMax) throw new PolicyFault(line, `a policy has at most ${namesMax} ${what}`)
}

function define(draft: Draft, one: Quorum, line: number): void {
  if (one.name === noName) throw new PolicyFault(line, `the name ${noName} is taken`)
  if (draft.named.has(one.name)) throw new PolicyFault(line, `the name ${one.name} is defined twice`)
  draft.named.set(one.name, one)
}

function logLine(draft: Draft, [text, url, ...more]: readonly string[], line: number): void {
  bound(draft.logs.length, 'logs', line)
  if (more.length > 0) throw new PolicyFault(line, 'a log is a key and at most one URL')
  const key = keyIn(text, noteKinds.signature, line)
  if (draft.logs.some((one) => isSame(one.key, key)))
    throw new PolicyFault(line, 'the key of this log stands here twice')
  draft.logs.push({ key, url: url ?? null })
}

function witnessLine(draft: Draft, [name, text, url, ...more]: readonly string[], line: number): void {
  bound(draft.witnesses.length, 'witnesses', line)
  if (name === undefined || more.length > 0)
    throw new PolicyFault(line, 'a witness is a name, a key and at most one URL')
  const key = keyIn(text, noteKinds.cosignature, line)
  if (draft.witnesses.some((one) => isSame(one.key, key)))
    throw new PolicyFault(line, 'the key of this witness stands here twice')
  define(draft, { kind: 'witness', name }, line)
  draft.witnesses.push({ name, key, url: url ?? null })
}

const numberPattern = /^[1-9][0-9]{0,3}$/

function groupLine(draft: Draft, [name, least, ...names]: readonly string[], line: number): void {
  bound(draft.groups, 'groups', line)
  if (name === undefined || least === undefined || names.length === 0)
    throw new PolicyFault(line, 'a group is a name, `all`, `any` or a number, and at least one member')
  const members = names.map((one) => {
    const member = draft.named.get(one)
    if (member === undefined) throw new PolicyFault(line, `no line before this one defines ${one}`)
    if (draft.taken.has(one)) throw new PolicyFault(line, `${one} is a member twice`)
    draft.taken.add(one)
    return member
  })
  const count = least === 'all' ? members.length : least === 'any' ? 1 : numberPattern.test(least) ? Number(least) : 0
  if (count < 1 || count > members.length)
    throw new PolicyFault(line, `a group needs \`all\`, \`any\` or a number from 1 to ${members.length}`)
  define(draft, { kind: 'group', name, least: count, members }, line)
  draft.groups++
}

function quorumLine(draft: Draft, [name, ...more]: readonly string[], line: number): void {
  if (draft.quorum !== undefined) throw new PolicyFault(line, 'a policy has one quorum line')
  if (name === undefined || more.length > 0) throw new PolicyFault(line, 'a quorum is one name')
  const quorum = name === noName ? null : draft.named.get(name)
  if (quorum === undefined) throw new PolicyFault(line, `no line before this one defines ${name}`)
  draft.quorum = quorum
}

const lineKinds: Readonly<Record<string, typeof logLine>> = {
  log: logLine,
  witness: witnessLine,
  group: groupLine,
  quorum: quorumLine,
}

/** Octets as characters: names are compared as octets, whatever their encoding. Throws `PolicyFault`. */
function octets(bytes: Uint8Array): string {
  if (bytes.length > policyBytesMax) throw new PolicyFault(0, `a policy has at most ${policyBytesMax} bytes`)
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return text
}

/** Allowed are tab, line feed, and all octets from a space on except DEL. */
const forbidden = /[\u0000-\u0008\u000b-\u001f\u007f]/

/** Throws `PolicyFault`, which says what is wrong in which line. */
export function parsePolicy(bytes: Uint8Array): Policy {
  const draft: Draft = { logs: [], witnesses: [], named: new Map(), taken: new Set(), groups: 0, quorum: undefined }
  for (const [at, text] of octets(bytes).split('\n').entries()) {
    if (forbidden.test(text)) throw new PolicyFault(at + 1, 'control characters other than tab are not allowed')
    const [kind, ...items] = text.split(/[ \t]+/).filter((item) => item !== '')
    if (kind === undefined || kind.startsWith('#')) continue
    const read = Object.hasOwn(lineKinds, kind) ? lineKinds[kind] : undefined
    if (read === undefined) throw new PolicyFault(at + 1, 'a line begins with log, witness, group or quorum')
    read(draft, items, at + 1)
  }
  const { logs, witnesses, quorum } = draft
  if (quorum === undefined) throw new PolicyFault(0, 'a policy needs a quorum line')
  return { logs, witnesses, quorum }
}

/** Whether these witnesses are enough; `signed`: their names in the policy. */
export function isMet(quorum: Quorum | null, signed: ReadonlySet<string>): boolean {
  if (quorum === null) return true
  if (quorum.kind === 'witness') return signed.has(quorum.name)
  return quorum.members.filter((member) => isMet(member, signed)).length >= quorum.least
}

/** `2 of (a, b, c)`. */
export function quorumText(quorum: Quorum | null): string {
  if (quorum === null) return 'no witness'
  if (quorum.kind === 'witness') return quorum.name
  return `${quorum.least} of (${quorum.members.map(quorumText).join(', ')})`
}
