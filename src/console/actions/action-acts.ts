import { consoleForms } from '../../actions/forms.ts' with { type: 'macro' }
import type { ConsoleForm } from '../../actions/forms.ts'
import type { Act, Shown, Values } from './act.ts'

/** What is done to a row, by the words of its definition. The macro runs when the page is bundled: the page has the forms alone. */
const forms: Readonly<Record<string, ConsoleForm>> = consoleForms()

/** A row as a list shows it. */
export type Row = Readonly<Record<string, unknown>>

const filled = (text: string, row: Row) => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(row[name] ?? ''))

function formOf(action: string): ConsoleForm {
  const form = forms[action]
  if (form === undefined) throw new Error(`no form of ${action}`)
  return form
}

function bodyOf({ members, fields }: ConsoleForm, row: Row, values: Values): Row | undefined {
  const typed = Object.fromEntries(
    fields.map(({ name, kind }) => {
      const text = (values[name] ?? '').trim()
      return [name, text === '' ? undefined : kind === 'number' ? Number(text) : text]
    }),
  )
  const given: Row = { ...row, ...typed }
  return members === null
    ? undefined
    : Object.fromEntries(members.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])))
}

/** Members of an answer by their labels; a list has a line for each of its texts. */
const shownOf =
  (labels: Readonly<Record<string, string>>) =>
  (answer: Row): readonly Shown[] =>
    Object.entries(labels).map(([member, label]) => ({ label, text: [answer[member]].flat().join('\n') }))

/** The act of an action on a row. */
export function actOn(action: string, row: Row): Act {
  const form = formOf(action)
  const { verb, button, method, fields, undo, shows, reads, confirm, destroys } = form
  const text = (words: string) => filled(words, row)
  return {
    actions: [action],
    verb,
    title: text(form.title),
    about: text(form.about),
    ...(fields.length === 0 ? {} : { fields }),
    ...(confirm === undefined ? {} : { confirm: text(confirm) }),
    ...(destroys === undefined ? {} : { destroys }),
    ...(button === undefined ? {} : { button }),
    run: (values, send) => {
      const path = form.path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(row[name])))
      const body = bodyOf(form, row, values)
      return send({ action, method, path, ...(body === undefined ? {} : { body }) })
    },
    ...(shows === undefined ? {} : { shows: shownOf(shows) }),
    ...(reads === undefined ? {} : { shows: shownOf(reads), again: true }),
    done: text(form.done),
    ...(undo === undefined ? {} : { undo: () => actOn(undo, row) }),
  }
}

/** Everything that can be done to a row of this kind, as it is now. */
export const actsOn = (kind: string, row: Row): readonly { readonly act: Act; readonly label: string }[] =>
  Object.values(forms)
    .filter(
      ({ on, when = {} }) => on === kind && Object.entries(when).every(([name, of]) => of.includes(String(row[name]))),
    )
    .map(({ action, verb, button = verb }) => ({ act: actOn(action, row), label: button }))
