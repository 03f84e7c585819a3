/* The address bar may name this gateway otherwise than SVC_PUBLIC_URL does; requests go where the page came from, which
   is also all that its content security policy allows. A key that was entered lives in this page alone. */
const response = await fetch('/openapi.json')
const spec = await response.json()
spec.servers = [{ url: location.origin }]
/* Swagger UI did not come up within half a minute with paths that refer to other paths. The page shows each operation once, where it
   is described. */
for (const [path, item] of Object.entries(spec.paths)) if (item.$ref !== undefined) delete spec.paths[path]

/* Swagger UI shows an answer when it is whole. A stream is shown as it comes, too, below its operation. */
let tried = null
addEventListener(
  'click',
  (event) => {
    const button = event.target instanceof Element ? event.target.closest('.execute') : null
    if (button !== null) tried = button.closest('.opblock-body')
  },
  true,
)

function paneOf(operation) {
  const pane = operation.querySelector('.as-it-comes') ?? document.createElement('pre')
  pane.className = 'as-it-comes microlight'
  pane.setAttribute('role', 'log')
  pane.setAttribute('aria-label', 'The stream as it comes')
  pane.textContent = ''
  operation.append(pane)
  return pane
}

/* More than anybody reads; the whole answer stands in Swagger UI's own pane. */
const shownCharactersMax = 200_000

async function show(stream, pane) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    if (pane.textContent.length < shownCharactersMax) pane.append(value)
  }
}

async function fetchShown(url, init) {
  const operation = tried
  const answer = await fetch(url, init)
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true
  if (!isStream || operation === null || answer.body === null) return answer
  const [seen, kept] = answer.body.tee()
  show(seen, paneOf(operation)).catch(() => {})
  const whole = new Response(kept, answer)
  Object.defineProperty(whole, 'url', { value: answer.url })
  return whole
}

window.SwaggerUIBundle({
  spec,
  dom_id: '#docs',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    request.userFetch = fetchShown
    return request
  },
})
