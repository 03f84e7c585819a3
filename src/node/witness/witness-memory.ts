import { PrivateFileError, type PrivateFolder } from '../../host/private-files.ts'
import { parseNoteKey } from '../../protocol/log/note.ts'
import { isEarlier, lineageOf } from '../../protocol/log/origins.ts'
import { fieldsOf, listOf, textOf } from '../../protocol/verify/given.ts'

/** A log that a witness was given. */
export interface WitnessedLog {
  /** Its name now. */
  readonly origin: string
  /** By which its checkpoints are signed, as `name+hash+base64`. */
  readonly keys: readonly string[]
  /** The checkpoint that was signed last; null: none yet. */
  readonly note: string | null
}

/** The logs that a witness was given, and the last checkpoint of each. Nothing of it is ever forgotten. */
export interface WitnessMemory {
  /** By what all names of a log have in common; null: the witness was never given this log. */
  find(lineage: string): WitnessedLog | null
  /** Each under its name now. */
  logs(): readonly WitnessedLog[]
  /** Writes it at once. */
  keep(log: WitnessedLog): void
  /** Adds what the owner names or the enrolment gave; a log that is there stays as it is. Throws `PrivateFileError`. */
  give(keys: readonly string[]): void
}

const witnessFile = 'witness.json'
/** Logs that one witness can be given. */
const witnessedMax = 16
export const knownKeysMax = 8

type Content = Readonly<Record<string, { readonly keys: readonly string[]; readonly note: string | null }>>

const damaged = (folder: PrivateFolder) => new PrivateFileError(`${folder.path}/${witnessFile} is damaged`)

function readContent(folder: PrivateFolder): Content {
  const stored = folder.read(witnessFile) ?? {}
  const entries = Object.entries(fieldsOf(stored)).map(([origin, value]) => {
    const { keys, note } = fieldsOf(value)
    const known = listOf(keys).map(String)
    if (known.length === 0 || (note !== null && textOf(note) === null)) throw damaged(folder)
    return [origin, { keys: known, note: textOf(note) }] as const
  })
  return Object.fromEntries(entries)
}

/** Throws `PrivateFileError`: a witness that cannot read what it signed must not sign. */
export function openWitnessMemory(folder: PrivateFolder): WitnessMemory {
  let content = readContent(folder)
  const find = (lineage: string): WitnessedLog | null => {
    const names = Object.keys(content).filter((origin) => lineageOf(origin) === lineage)
    const newest = names.reduce<string | null>(
      (best, name) => (best === null || isEarlier(best, name) ? name : best),
      null,
    )
    const known = newest === null ? undefined : content[newest]
    return newest === null || known === undefined ? null : { origin: newest, ...known }
  }
  const write = (next: Content) => {
    folder.write(witnessFile, next)
    content = next
  }
  return {
    find,
    logs: () => [...new Set(Object.keys(content).map(lineageOf))].flatMap((lineage) => find(lineage) ?? []),
    keep: ({ origin, keys, note }) => {
      const others = Object.entries(content).filter(([name]) => lineageOf(name) !== lineageOf(origin))
      write({ ...Object.fromEntries(others), [origin]: { keys, note } })
    },
    give: (keys) => {
      const next: Record<string, Content[string]> = { ...content }
      for (const text of keys) {
        const name = parseNoteKey(text)?.name
        if (name === undefined || find(lineageOf(name)) !== null) continue
        next[name] = { keys: [...(next[name]?.keys ?? []), text].slice(0, knownKeysMax), note: null }
      }
      if (Object.keys(next).length > witnessedMax) {
        throw new PrivateFileError(`${folder.path}/${witnessFile} holds ${witnessedMax} logs, and takes no more`)
      }
      if (Object.keys(next).length > Object.keys(content).length) write(next)
    },
  }
}
