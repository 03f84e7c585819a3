import { ed25519 } from '@noble/curves/ed25519.js'
import { type NoteKey, noteKeyText, parseNoteKey } from '../protocol/log/note.ts'
import { readGiven, verifyBundle } from '../protocol/verify/bundle.ts'
import type { Check, Trust, Verdict } from '../protocol/verify/trust.ts'
import { keep, seenCheckpoint, seenKeys } from './seen-logs.ts'

/** As much as the command takes. */
const fileBytesMax = 256 * 1024 * 1024

function find<E extends HTMLElement>(id: string): E {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no ${id}`)
  return found as E
}
const linesOf = (id: string): readonly string[] =>
  find<HTMLTextAreaElement>(id)
    .value.split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')

function noteKeys(texts: readonly string[]): readonly NoteKey[] {
  return texts.map((text) => {
    const key = parseNoteKey(text)
    if (key === null) throw new Error(`This is no key of a signed note: ${text}`)
    return key
  })
}

/** As the gateway and the command judge: keys of small order, for which one signature fits all messages, are none. */
function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false
  }
}

const trustOf = (): Trust => ({
  logKeys: noteKeys([...linesOf('log-keys'), ...seenKeys()]),
  witnessKeys: noteKeys(linesOf('witness-keys')),
  nodeKeys: linesOf('node-keys'),
  auditKeys: linesOf('audit-keys'),
  witnessesMin: Number(find<HTMLInputElement>('witnesses').value) || 0,
  logNeeded: !find<HTMLInputElement>('without-log').checked,
  remembered: seenCheckpoint,
  verify: verifyEd25519,
})

function element<K extends keyof HTMLElementTagNameMap>(name: K, text: string, style = ''): HTMLElementTagNameMap[K] {
  const made = document.createElement(name)
  made.textContent = text
  made.className = style
  return made
}

const styles = { true: 'holds', false: 'broken', null: '' } as const
const marks = { true: 'holds', false: 'does not hold', null: 'not said' } as const

function row({ name, ok, detail }: Check): HTMLElement {
  const line = document.createElement('tr')
  const head = element('th', name)
  head.scope = 'row'
  line.append(head, element('td', marks[`${ok}`], styles[`${ok}`]), element('td', detail))
  return line
}

function shown({ kind, subject, checks, valid }: Verdict): HTMLElement {
  const section = document.createElement('section')
  const table = document.createElement('table')
  table.append(...checks.map(row))
  const result = valid ? 'valid' : 'NOT VALID'
  section.append(element('h2', `${kind} ${subject}: ${result}`, valid ? 'holds' : 'broken'), table)
  return section
}

const say = (...parts: readonly HTMLElement[]) => find('verdicts').replaceChildren(...parts)
const refuse = (text: string) => say(element('p', text, 'broken'))

async function check(file: File): Promise<void> {
  if (file.size > fileBytesMax) return refuse(`This file is larger than ${fileBytesMax} bytes.`)
  try {
    const trust = trustOf()
    const roots = linesOf('roots').map((root) => root.toLowerCase())
    const verdicts = verifyBundle(readGiven((await file.text()).trim()), trust, roots)
    if (verdicts === null || verdicts.length === 0) return refuse('This file holds nothing that can be verified.')
    for (const { checkpoint } of verdicts) {
      const own = trust.logKeys.filter(({ name }) => name === checkpoint?.origin)
      if (checkpoint !== null) keep(checkpoint, own.map(noteKeyText))
    }
    say(...verdicts.map(shown))
  } catch (error) {
    refuse(error instanceof Error ? error.message : 'This file cannot be read.')
  }
}

document.addEventListener('dragover', (event) => event.preventDefault())
document.addEventListener('drop', (event) => {
  event.preventDefault()
  const [file] = event.dataTransfer?.files ?? []
  if (file !== undefined) void check(file)
})
find<HTMLInputElement>('file').addEventListener('change', (event) => {
  const [file] = (event.target as HTMLInputElement).files ?? []
  if (file !== undefined) void check(file)
})
// What is known has changed: the same file is judged anew.
find('trust').addEventListener('change', () => {
  const [file] = find<HTMLInputElement>('file').files ?? []
  if (file !== undefined) void check(file)
})
find('trust').addEventListener('submit', (event) => event.preventDefault())
