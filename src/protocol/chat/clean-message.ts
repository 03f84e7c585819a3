import { struck } from '../../confidences.ts'

/** Longest text of a node that is searched, UTF-16 units: the patterns below are tried at each of them. */
const readMax = 4_096
const shownMax = 300

/**
 * Patterns for text that names a computer, a folder or a secret. Their order matters, because a URL would otherwise be
 * taken for a path.
 */
const telling: readonly RegExp[] = [
  // URLs, also of data.
  /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"'<>`)\]}]+/gi,
  /\bdata:[^\s"'<>`)\]}]+/gi,
  // Paths: of Windows and of its shares; absolute ones, of home, and of here; with two slashes or to a file.
  /(?<!\w)[A-Za-z]:[\\/][^\s"'<>`|]+/g,
  /\\\\[^\s"'<>`]+/g,
  /(?<![\w.])(?:~[\w-]*|\.{1,2})?\/[^\s"'<>`(){}[\],;]+/g,
  /\b[\w.@+-]+(?:\/[\w.@+-]+){2,}/g,
  /\b[\w.@+-]+\/[\w@+-]+\.[a-z]\w{1,11}\b/g,
  // Addresses, with their port.
  /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g,
  /\[?(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])\]?(?::\d+)?/gi,
  // Host names and files; `messages.0.content` and its like are the client's own.
  /(?<![\w.])(?!(?:messages?|tools|tool_choice|tool_calls|functions?|response_format|json_schema|content|body|parameters|properties|choices)\b)(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}(?:[a-z]{2,24}|[A-Z]{2,24})(?::\d{1,5})?\b/g,
  /\blocalhost\b(?::\d+)?/gi,
  /\b[A-Za-z][\w-]*:\d{2,5}\b/g,
  // Keys, digests, bytes.
  /[A-Za-z0-9+/_=-]{40,}/g,
]
const controls = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+/g

/**
 * A node's own words as its client may read them (§27): at most 300 characters, without anything that names its
 * computer. `names`: the node's names, and their replacements. null if nothing is left.
 */
export function cleanMessage(text: string, names: Readonly<Record<string, string>>): string | null {
  let clean = text.slice(0, readMax).replace(controls, ' ')
  for (const name in names) clean = clean.replaceAll(name, names[name] ?? '')
  for (const pattern of telling) clean = clean.replace(pattern, struck)
  clean = clean.replace(/\s+/g, ' ').trim()
  if (!/\p{L}{2}/u.test(clean)) return null
  const characters = [...clean]
  return characters.length > shownMax ? `${characters.slice(0, shownMax - 1).join('')}…` : clean
}
