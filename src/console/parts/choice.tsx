import { useState } from 'preact/hooks'
import { fits } from './long-table.tsx'

interface ChoiceProps {
  readonly id: string
  readonly value: string
  readonly options: readonly string[]
  /** Instead of a value, where there is nothing to choose. */
  readonly none: string
  readonly choose: (value: string) => void
}

/** So many fit what was typed at most: more is not a list that anybody reads. */
const shownMax = 50

/** One of many names, by typing a part of it. Any other text leaves the choice as it was. */
export function Choice({ id, value, options, none, choose }: ChoiceProps) {
  const [typed, setTyped] = useState<string | null>(null)
  const shown = options.filter((option) => fits(option, typed ?? '')).slice(0, shownMax)
  const list = `${id}-options`
  const settle = (text: string) => {
    setTyped(null)
    const named = options.find((option) => option === text.trim()) ?? (shown.length === 1 ? shown[0] : undefined)
    if (named !== undefined) choose(named)
  }
  return (
    <>
      <input
        id={id}
        list={list}
        autocomplete="off"
        spellcheck={false}
        disabled={options.length === 0}
        placeholder={options.length === 0 ? none : ''}
        value={typed ?? value}
        onFocus={(event) => event.currentTarget.select()}
        onInput={(event) => {
          const text = event.currentTarget.value
          setTyped(text)
          if (options.includes(text)) choose(text)
        }}
        onBlur={(event) => settle(event.currentTarget.value)}
      />
      <datalist id={list}>
        {shown.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
    </>
  )
}
