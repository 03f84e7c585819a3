import { Problem } from '../../../errors.ts'
import type { ResponsesRequest } from '../../wire/inference/responses.ts'

type Json = Readonly<Record<string, unknown>>
type Tools = NonNullable<ResponsesRequest['tools']>
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

const invalid = (param: string, detail: string) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })

/** A chat knows no namespaces: there the function's name begins with that of its namespace. */
export const joinedName = (namespace: string, name: string) => `${namespace}__${name}`

/** What a response calls a function that a node has called by its name in the chat. */
export function calledFunction(tools: Tools, called: string): { readonly name: string; readonly namespace?: string } {
  const declared: readonly Json[] = tools
  if (declared.some(({ type, name }) => type === 'function' && name === called)) return { name: called }
  for (const { type, name: namespace, tools: inner } of declared) {
    if (type !== 'namespace' || typeof namespace !== 'string' || !Array.isArray(inner)) continue
    for (const tool of inner) {
      if (!isObject(tool) || typeof tool.name !== 'string') continue
      if (joinedName(namespace, tool.name) === called) return { name: tool.name, namespace }
    }
  }
  return { name: called }
}

function functionOf(tool: Json, at: string): Json & { readonly name: string } {
  const { type, name, description, parameters, strict } = tool
  if (type !== 'function') {
    const detail = `${at}: this gateway runs no tools of its own; only functions can be used`
    throw new Problem('tool_not_supported', { param: `${at}.type`, detail })
  }
  if (typeof name !== 'string') throw invalid(`${at}.name`, 'a function has a name')
  const known = { description, parameters, strict }
  return { name, ...Object.fromEntries(Object.entries(known).filter(([, value]) => value != null)) }
}

/** The model is shown what a namespace is for with each of its functions. */
function* spaced({ name: namespace, description: about, tools }: Json, at: string): Generator<Json> {
  if (typeof namespace !== 'string') throw invalid(`${at}.name`, 'a namespace has a name')
  if (!Array.isArray(tools)) throw invalid(`${at}.tools`, 'a namespace has functions')
  for (const [index, tool] of tools.entries()) {
    const known = functionOf(isObject(tool) ? tool : {}, `${at}.tools[${index}]`)
    const description = [about, known.description].filter((text) => typeof text === 'string' && text !== '').join('\n')
    yield { ...known, name: joinedName(namespace, known.name), ...(description === '' ? {} : { description }) }
  }
}

/** The functions of a chat. Throws a `Problem` for tools that only OpenAI's servers run. */
export function chatTools(tools: Tools): readonly Json[] {
  const functions = (tools as readonly Json[]).flatMap((tool, index) => {
    const at = `tools[${index}]`
    return tool.type === 'namespace' ? [...spaced(tool, at)] : [functionOf(tool, at)]
  })
  return functions.map((known) => ({ type: 'function', function: known }))
}
