import MiniSearch from 'minisearch'
import { type Searched, searchOptions } from './search-options.ts'

/** More than anybody reads. */
const shownMax = 12

const form = document.querySelector<HTMLFormElement>('form[role=search]')
const field = form?.querySelector('input') ?? null
const list = document.querySelector<HTMLUListElement>('#found')
const count = document.querySelector<HTMLElement>('#count')

let loading: Promise<MiniSearch<Searched>> | null = null

/** Fetched when somebody first looks for something: it is as long as all documents. */
async function load(): Promise<MiniSearch<Searched>> {
  const response = await fetch(document.body.dataset.index ?? '')
  if (!response.ok) throw new Error(String(response.status))
  return MiniSearch.loadJSON<Searched>(await response.text(), searchOptions)
}

function entry(id: string, page: string, heading: string, lead: string): HTMLLIElement {
  const [item, link, place, text] = [
    document.createElement('li'),
    document.createElement('a'),
    document.createElement('small'),
    document.createElement('p'),
  ]
  link.href = id
  link.textContent = heading
  place.textContent = page
  text.textContent = lead
  link.append(' ', place)
  item.append(link, text)
  return item
}

async function search(words: string): Promise<void> {
  if (list === null || count === null || field === null) return
  if (words.trim() === '') {
    list.replaceChildren()
    count.textContent = ''
    return
  }
  loading ??= load()
  let index: MiniSearch<Searched>
  try {
    index = await loading
  } catch {
    loading = null
    count.textContent = 'The search could not be loaded. Reload the page.'
    return
  }
  // Another letter was typed meanwhile.
  if (field.value !== words) return
  const found = index.search(words)
  list.replaceChildren(
    ...found.slice(0, shownMax).map(({ id, page, heading, lead }) => entry(String(id), page, heading, lead)),
  )
  count.textContent = found.length === 0 ? 'Nothing found.' : `${found.length} found.`
}

if (form !== null && field !== null) {
  form.hidden = false
  field.addEventListener('input', () => void search(field.value))
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    list?.querySelector('a')?.click()
  })
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && field.value !== '') {
      field.value = ''
      void search('')
      field.focus()
    }
    if (event.key === '/' && document.activeElement === document.body) {
      event.preventDefault()
      field.focus()
    }
  })
}
