import { type NoteKey, noteKeyText, parseNoteKey } from '../protocol/log/note.ts'
import { verifyEd25519Strictly } from '../protocol/signing/strict-ed25519.ts'
import { readGiven, verifyBundle } from '../protocol/verify/bundle.ts'
import { parsePolicy } from '../protocol/verify/policy.ts'
import { type Check, checkWord, type Trust, underPolicy, type Verdict } from '../protocol/verify/trust.ts'
import { keep, remembered, seenKeys } from './seen-logs.ts'

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

const given = (): Trust => ({
  logKeys: noteKeys([...linesOf('log-keys'), ...seenKeys()]),
  witnessKeys: noteKeys(linesOf('witness-keys')),
  nodeKeys: linesOf('node-keys'),
  auditKeys: linesOf('audit-keys'),
  witnessesMin: Number(find<HTMLInputElement>('witnesses').value) || 0,
  logNeeded: !find<HTMLInputElement>('without-log').checked,
  remembered,
  verify: verifyEd25519Strictly,
})

/** Under a policy its logs and witnesses alone count. Throws `PolicyFault`. */
function trustOf(): Trust {
  const text = find<HTMLTextAreaElement>('policy').value
  if (text.trim() === '') return given()
  const trust = underPolicy(given(), parsePolicy(new TextEncoder().encode(text)))
  // A signature alone says nothing about a quorum.
  return { ...trust, logNeeded: true }
}

function element<K extends keyof HTMLElementTagNameMap>(name: K, text: string, style = ''): HTMLElementTagNameMap[K] {
  const made = document.createElement(name)
  made.textContent = text
  made.className = style
  return made
}

const styles = { holds: 'holds', 'does not hold': 'broken', warning: 'warning', 'not said': '' } as const

function row(one: Check): HTMLElement {
  const { name, detail } = one
  const word = checkWord(one)
  const line = document.createElement('tr')
  const head = element('th', name)
  head.scope = 'row'
  line.append(head, element('td', word, styles[word]), element('td', detail))
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

const keepsNothing =
  'This browser keeps nothing: a log that shows something else next time goes unseen here. Use a window that is not private.'

/** The file that is judged, however it came. */
let current: File | null = null
/** Counts the checks: one that another has overtaken shows nothing. */
let turn = 0

async function check(): Promise<void> {
  const own = ++turn
  if (current === null) return
  if (current.size > fileBytesMax) return refuse(`This file is larger than ${fileBytesMax} bytes.`)
  try {
    const text = await current.text()
    if (own === turn) judge(text)
  } catch (error) {
    if (own === turn) refuse(error instanceof Error ? error.message : 'This file cannot be read.')
  }
}

function judge(text: string): void {
  const trust = trustOf()
  const roots = linesOf('roots').map((root) => root.toLowerCase())
  const verdicts = verifyBundle(readGiven(text.trim()), trust, roots)
  if (verdicts === null || verdicts.length === 0) return refuse('This file holds nothing that can be verified.')
  const kept = verdicts.map(({ checkpoint }) => {
    const own = trust.logKeys.filter(({ name }) => name === checkpoint?.origin)
    return checkpoint === null || keep(checkpoint, own.map(noteKeyText))
  })
  say(...verdicts.map(shown), ...(kept.includes(false) ? [element('p', keepsNothing)] : []))
}

document.addEventListener('dragover', (event) => event.preventDefault())
document.addEventListener('drop', (event) => {
  event.preventDefault()
  const [file] = event.dataTransfer?.files ?? []
  if (file === undefined) return
  // It would still name the file that was chosen before.
  find<HTMLInputElement>('file').value = ''
  current = file
  void check()
})
find<HTMLInputElement>('file').addEventListener('change', (event) => {
  const [file] = (event.target as HTMLInputElement).files ?? []
  if (file === undefined) return
  current = file
  void check()
})
// What is known has changed: the same file is judged anew.
find('trust').addEventListener('change', () => void check())
find('trust').addEventListener('submit', (event) => event.preventDefault())
