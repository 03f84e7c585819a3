/** What Ollama takes a name without a tag to end with. */
const latest = ':latest'

/** `llama3` of `llama3:latest`; null: the name has another tag, or none. */
export const withoutLatest = (name: string): string | null =>
  name.endsWith(latest) && name.length > latest.length ? name.slice(0, -latest.length) : null

/** `llama3:latest` for `llama3`; null if the name has a tag. A registry's port is not a tag. */
export const withLatest = (name: string): string | null =>
  name.includes(':', name.lastIndexOf('/') + 1) ? null : name + latest
