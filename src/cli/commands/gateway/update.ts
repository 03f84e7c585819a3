import { version } from '../../../../package.json'
import { product } from '../../../brand.ts'
import { checkNote, type NoteKey, noteKinds, parseNote, parseNoteKey } from '../../../protocol/log/note.ts'
import { compareVersions, type Release, readRelease } from '../../../protocol/release/release-list.ts'
import { verifyEd25519Strictly } from '../../../protocol/signing/strict-ed25519.ts'
import { secondMs } from '../../../time.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { fields } from '../../frame/table.ts'
import { boundedBytes } from '../monitor/bounded-bytes.ts'

const listName = 'SHA256SUMS.note'
const answerMsMax = 10 * secondMs
/** More than a hundred files need. */
const listBytesMax = 64 * 1_024

const howToSet =
  'Set SVC_UPDATE_URL to the address of the releases and SVC_UPDATE_KEY to the key of their makers, or give --from and --key.'

interface Source {
  /** Without a slash at the end. */
  readonly url: string
  readonly key: NoteKey
}

/** The address and the key come from the user: this program has no default for either. Throws `UsageFault`. */
function sourceOf(
  given: { readonly from: string | undefined; readonly key: string | undefined },
  env: Session['env'],
): Source {
  const url = (given.from ?? env.SVC_UPDATE_URL ?? '').trim().replace(/\/+$/, '')
  const text = (given.key ?? env.SVC_UPDATE_KEY ?? '').trim()
  if (url === '' || text === '') throw new UsageFault(`Where releases are is not known. ${howToSet}`)
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (
    parsed === null ||
    !/^https?:$/.test(parsed.protocol) ||
    parsed.username !== '' ||
    parsed.password !== '' ||
    parsed.search !== ''
  ) {
    throw new UsageFault(`The address of the releases must be like https://example.com/penstock`)
  }
  const key = parseNoteKey(text)
  if (key === null || key.kind !== noteKinds.signature) {
    throw new UsageFault('The key of the releases must be like penstock-release+…+…')
  }
  return { url, key }
}

/** Throws `CliFailure` with what went wrong on the way, in words. */
async function fetched(url: string, signal: AbortSignal): Promise<string> {
  const within = AbortSignal.timeout(answerMsMax)
  const failed = (why: string) => new CliFailure(`${url} could not be read: ${why}.`)
  let response: Response
  try {
    response = await fetch(url, { signal: AbortSignal.any([within, signal]), redirect: 'error' })
  } catch (error) {
    if (signal.aborted) throw failed('it was interrupted')
    if (within.aborted) throw failed(`no answer came within ${answerMsMax / secondMs} s`)
    const { code, name } = error as { readonly code?: string; readonly name?: string }
    throw failed(code ?? name ?? 'no connection')
  }
  if (!response.ok || response.body === null) throw failed(`the server answered ${response.status}`)
  const bytes = await boundedBytes(response.body, listBytesMax)
  if (bytes === null) throw failed(`it was cut, or has more than ${listBytesMax / 1_024} KiB`)
  return new TextDecoder().decode(bytes)
}

/** Throws `CliFailure` unless the key's owner has signed the list. */
function checked(text: string, { url, key }: Source): Release {
  const note = parseNote(text)
  if (note === null) throw new CliFailure(`${url}/${listName} is no signed list of a release.`)
  const signatures = checkNote(note, [key], verifyEd25519Strictly)
  if (signatures === null || signatures.length === 0) {
    throw new CliFailure(`${url}/${listName} is not signed by ${key.name}. Trust nothing that comes from there.`)
  }
  const release = readRelease(note.text)
  if (release === null) throw new CliFailure(`${url}/${listName} is signed, but is no list of a release.`)
  return release
}

const systems: Readonly<Record<string, string>> = { linux: 'linux', darwin: 'macos', win32: 'windows' }

/** The executable of this computer in the list; null: the release has none. */
function forHere({ files }: Release) {
  const start = `${product}-${systems[process.platform] ?? process.platform}-${process.arch}`
  const name = [start, `${start}.exe`].find((file) => files.has(file))
  return name === undefined ? null : { file: name, sha256: files.get(name) ?? '' }
}

export const update: Verb = {
  name: 'update',
  about: 'Ask whether a newer release is out, at the address that you name',
  actions: action({
    about:
      'Ask whether a newer release is out. It asks only the address that you have set, only when you run it, and installs nothing',
    options: {
      check: { kind: 'flag', about: 'Ask. Without it nothing is done' },
      from: { kind: 'text', value: 'URL', about: 'The address of the releases (default SVC_UPDATE_URL)' },
      key: { kind: 'text', value: 'KEY', about: 'The key of their makers, name+hash+base64 (default SVC_UPDATE_KEY)' },
    },
    run: async ({ options, json }, session) => {
      if (!options.check) {
        throw new UsageFault('Nothing is installed by this command. To ask for a newer release: update --check')
      }
      const source = sourceOf(options, session.env)
      const leaving = new AbortController()
      process.once('SIGINT', () => leaving.abort())
      const release = checked(await fetched(`${source.url}/${listName}`, leaving.signal), source)
      const here = forHere(release)
      const state = {
        version,
        newest: release.version,
        newer: compareVersions(version, release.version) < 0,
        download: here === null ? null : { url: `${source.url}/${here.file}`, sha256: here.sha256 },
      }
      session.show(json, state, ({ newest, newer, download }) =>
        fields(session.terminal, [
          ['Runs', version],
          ['Newest', newer ? newest : `${newest}: nothing newer is out`],
          ...(newer && download !== null
            ? ([
                ['Download', download.url],
                ['SHA-256', download.sha256],
              ] as const)
            : []),
        ]),
      )
      return undefined
    },
  }),
}
