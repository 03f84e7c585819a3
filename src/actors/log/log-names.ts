import { brand } from '../../brand.ts'
import { sha256 } from '../../protocol/log/merkle-log.ts'
import { noteText } from '../../protocol/log/note.ts'
import { logSigner, type NoteSigner } from '../../protocol/log/note-signing.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'

const nameLength = 16

/** The name of a new log: of the key that signs its first checkpoint. */
export function firstOrigin(keys: readonly SigningKey[]): string {
  const hash = sha256(keys.at(0)?.publicKey ?? '').toHex()
  return `${brand}-log/${hash.slice(0, nameLength)}`
}

/** The name without its number, and its number: 1 of a log that was never forked. */
function partsOf(origin: string) {
  const [, base = '', number = '1'] = /^(.*?)(?:\/([0-9]+))?$/.exec(origin.replace(`${brand}-log/`, '')) ?? []
  return { base, number: Number(number) }
}

/** Whether the log had the one name before the other: a database that says so was put back to before a named fork. */
export function isEarlier(origin: string, than: string): boolean {
  const [one, other] = [partsOf(origin), partsOf(than)]
  return one.base === other.base && one.number < other.number
}

/** The name under which a log goes on after a fork, `…/2`, `…/3`: never one that it had before, here or in what was lost. */
export function nextOrigin(origin: string, lost: string): string {
  const { base, number } = partsOf(isEarlier(origin, lost) ? lost : origin)
  return `${brand}-log/${base}/${number + 1}`
}

export const signersOf = (origin: string, keys: readonly SigningKey[]): readonly NoteSigner[] =>
  keys.map((key) => logSigner(origin, key))

/** Signed by each key of the list, so that a reader who knows only an older one still reads it. */
export function signedNote(text: string, origin: string, keys: readonly SigningKey[]): string {
  return noteText({ text, signatures: signersOf(origin, keys).map((signer) => signer.sign(text)) })
}
