import type { InferenceRequest } from '../../actors/operations/operation.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { isObject } from '../../protocol/json/json-object.ts'
import {
  tagCharactersMax,
  tagPattern,
  tagSeparator,
  tagsMax,
  tagsTextMax,
  tagWords,
} from '../../protocol/wire/inference/tags.ts'

const headerParam = `header.${headers.tags}`
const memberParam = 'metadata.tags'

const inHeader = (detail: string) =>
  new Problem('invalid_parameter', { param: headerParam, detail: `${headers.tags}: ${detail}` })
const inBody = (detail: string, param = memberParam) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })
const tooMany = (sent: string) => `a request has at most ${tagsMax} tags of ${tagCharactersMax} characters; ${sent}`
const mustBe = `a tag must be ${tagWords}`

const listed = (text: string) =>
  text
    .split(tagSeparator)
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')

/** Of a body: a list of texts, or, as OpenAI's metadata has texts alone, one text with commas. */
function memberTags(metadata: unknown): readonly string[] {
  const tags = isObject(metadata) ? metadata.tags : null
  if (tags == null) return []
  if (typeof tags === 'string' && tags.length > tagsTextMax) {
    throw inBody(tooMany(`you sent text of ${tags.length} characters`))
  }
  const all: readonly unknown[] | null = typeof tags === 'string' ? listed(tags) : Array.isArray(tags) ? tags : null
  if (all === null) throw inBody('must be a list of tags, or a text with commas between them')
  if (all.length > tagsMax) throw inBody(tooMany(`you sent ${all.length}`))
  return all.map((tag, at) => {
    if (typeof tag === 'string' && tagPattern.test(tag)) return tag
    throw inBody(mustBe, Array.isArray(tags) ? `${memberParam}[${at}]` : memberParam)
  })
}

function headerTags(sent: string | null): readonly string[] {
  if (sent === null) return []
  if (sent.length > tagsTextMax) throw inHeader(tooMany(`you sent text of ${sent.length} characters`))
  const tags = listed(sent)
  if (tags.length > tagsMax) throw inHeader(tooMany(`you sent ${tags.length}`))
  if (tags.every((tag) => tagPattern.test(tag))) return tags
  throw inHeader(mustBe)
}

/** The tags of a request's header and of its body, each once, as its record keeps them; null: it has none. Throws for what is no tag. */
export function readTags(request: Request, body: InferenceRequest | null): string | null {
  const sent = request.headers.get(headers.tags)
  const metadata = body?.metadata
  if (sent === null && metadata == null) return null
  const tags = new Set([...headerTags(sent), ...memberTags(metadata)])
  if (tags.size === 0) return null
  if (tags.size > tagsMax) {
    throw inBody(`a request has at most ${tagsMax} tags, those of ${headers.tags} included; you sent ${tags.size}`)
  }
  return [...tags].sort().join(tagSeparator)
}
