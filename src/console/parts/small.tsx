import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { nothing, shortId } from './format.ts'

/** Colour never stands alone: the word is always there. */
export const Pill = ({ tone, text }: { tone: string; text: string }) => <span class={`pill tone-${tone}`}>{text}</span>

interface CellProps {
  readonly label: string
  readonly number?: boolean | undefined
  readonly children: ComponentChildren
}

/** A cell of a table that is a list of cards on a phone, where a card leaves out what its row does not have. */
export const Cell = ({ label, number = false, children }: CellProps) => (
  <td data-label={label} class={[number ? 'number' : '', children === nothing ? 'blank' : ''].join(' ').trim()}>
    {children}
  </td>
)

/** An id: shortened for the eye, whole for the clipboard and for readers of the title. */
export const Id = ({ id }: { id: string }) => (
  <code class="id" title={id}>
    {shortId(id)}
  </code>
)

/** What a person calls it, with the id in the title; the id alone where no name is known. */
export function Named({ id, names }: { id: string; names: ReadonlyMap<string, string> }) {
  const name = names.get(id)
  return name === undefined ? <Id id={id} /> : <span title={id}>{name}</span>
}

/** The time now, once a second; `ago` texts stay true without anything being read. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return now
}

export const Figure = ({ name, value, hint }: { name: string; value: string; hint?: string | undefined }) => (
  <div class="figure">
    <dt>{name}</dt>
    <dd>
      {value}
      {hint !== undefined && <small> {hint}</small>}
    </dd>
  </div>
)

/** A text of a person, as the gateway writes it: what stands in backticks is code. */
export const Prose = ({ text }: { text: string }) => (
  <>{text.split('`').map((part, at) => (at % 2 === 0 ? part : <code key={at}>{part}</code>))}</>
)
