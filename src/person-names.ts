/**
 * Characters that are not seen, or turn the direction of a text around: with them, two names that are not the same look
 * the same. By code unit, because a JSON schema has its patterns without the flag `u`.
 */
const unseenUnits =
  '\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\udb40'
const unseen = new RegExp(`(?:\\udb40[\\udc00-\\udfff])|[${unseenUnits}]`, 'g')
/** As the audit shows an actor without a name. */
const prefixForm = '[0-9a-f]{12}'
const bare = new RegExp(`^${prefixForm}$`)

export const nameCharactersMax = 64
/** No space at either end, nothing unseen, no id, and no hash prefix: command line and audit have those in the place of a name. */
export const namePattern = `^(?!adm_)(?!${prefixForm}$)[^\\s${unseenUnits}](?:[^${unseenUnits}]*[^\\s${unseenUnits}])?$`
export const nameWords =
  'text of 1 to 64 characters that can be seen, on one line, without spaces around it, and no hash prefix'

export const withoutUnseen = (text: string): string => text.replaceAll(unseen, '').trim()

/** Letters of other alphabets, and digits, that look like a Latin letter in one of their cases (Unicode TR 39 has more). */
const alike: Readonly<Record<string, string>> = {
  a: 'аαɑ',
  b: 'вьβ',
  c: 'сϲ',
  d: 'ԁ',
  e: 'еεҽ',
  g: 'ɡ',
  h: 'нһη',
  j: 'ј',
  k: 'кκ',
  l: '1i|ӏıιіǀ',
  m: 'мμ',
  o: '0оο',
  p: 'рρ',
  q: 'ԛ',
  s: 'ѕ',
  t: 'тτ',
  u: 'υ',
  v: 'νѵ',
  w: 'ԝ',
  x: 'хχ',
  y: 'уγ',
  z: 'ζ',
  '-': '‐‑‒–—−',
}
const latin = new Map(Object.entries(alike).flatMap(([letter, all]) => [...all].map((each) => [each, letter])))

/** What a person sees of a name, nearly. */
function lookOf(name: string): string {
  const plain = withoutUnseen(name.normalize('NFKC')).toLowerCase().normalize('NFKC').replaceAll(/\s+/g, ' ')
  return [...plain]
    .map((each) => latin.get(each) ?? each)
    .join('')
    .replaceAll('rn', 'm')
    .replaceAll('vv', 'w')
}

/** Whether somebody who reads one name may take it for the other. */
export const looksLike = (name: string, other: string): boolean => lookOf(name) === lookOf(other)

export const looksLikePrefix = (name: string): boolean => bare.test(name)
