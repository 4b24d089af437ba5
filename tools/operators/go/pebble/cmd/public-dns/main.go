// Command public-dns answers for all names of the public internet, as far as an ACME server and its clients ask: each
// has the same address, and the TXT records that dynamic updates (RFC 2136) brought. It keeps them in memory, and asks
// nobody who updates: it is for clusters of tests. It is compiled inside of pebble's module, for its library.
package main

import (
	"flag"
	"log"
	"net"
	"slices"
	"sync"

	"github.com/miekg/dns"
)

const ttl = 1

type server struct {
	address net.IP
	lock    sync.Mutex
	texts   map[string][]string
}

func main() {
	listen := flag.String("listen", ":8053", "address and port, for UDP and TCP")
	address := flag.String("address", "127.0.0.1", "IPv4 address of each name")
	flag.Parse()
	handler := &server{address: net.ParseIP(*address).To4(), texts: map[string][]string{}}
	if handler.address == nil {
		log.Fatalf("-address %s: it is no IPv4 address", *address)
	}
	ended := make(chan error)
	for _, network := range []string{"udp", "tcp"} {
		// By default, the library answers that it does not know updates.
		accept := func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }
		listener := &dns.Server{Addr: *listen, Net: network, Handler: handler, MsgAcceptFunc: accept}
		go func() { ended <- listener.ListenAndServe() }()
	}
	log.Printf("public-dns answers at %s", *listen)
	log.Fatal(<-ended)
}

func (s *server) ServeDNS(writer dns.ResponseWriter, request *dns.Msg) {
	reply := new(dns.Msg).SetReply(request)
	reply.Authoritative = true
	switch {
	case request.Response || len(request.Question) != 1:
		reply.Rcode = dns.RcodeFormatError
	case request.Opcode == dns.OpcodeUpdate:
		s.update(request.Ns)
	case request.Opcode == dns.OpcodeQuery:
		s.answer(request.Question[0], reply)
	default:
		reply.Rcode = dns.RcodeNotImplemented
	}
	if err := writer.WriteMsg(reply); err != nil {
		log.Printf("reply to %s: %s", writer.RemoteAddr(), err)
	}
}

// update follows RFC 2136, section 3.4.2, for TXT records; others are ignored.
func (s *server) update(records []dns.RR) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, record := range records {
		header := record.Header()
		name := dns.CanonicalName(header.Name)
		text, isText := record.(*dns.TXT)
		switch {
		case header.Class == dns.ClassANY:
			delete(s.texts, name)
		case isText && header.Class == dns.ClassNONE:
			s.texts[name] = slices.DeleteFunc(s.texts[name], func(each string) bool { return each == joined(text) })
		case isText && !slices.Contains(s.texts[name], joined(text)):
			s.texts[name] = append(s.texts[name], joined(text))
		}
		log.Printf("update of %s", name)
	}
}

func (s *server) answer(question dns.Question, reply *dns.Msg) {
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: ttl}
	switch question.Qtype {
	case dns.TypeA:
		reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: s.address})
	case dns.TypeTXT:
		s.lock.Lock()
		defer s.lock.Unlock()
		for _, text := range s.texts[dns.CanonicalName(question.Name)] {
			reply.Answer = append(reply.Answer, &dns.TXT{Hdr: header, Txt: []string{text}})
		}
	case dns.TypeSOA:
		// Domains with two labels are zones, which is enough for tests: example.com.
		if dns.CountLabel(question.Name) == 2 {
			reply.Answer = append(reply.Answer, &dns.SOA{
				Hdr: header, Ns: "ns." + question.Name, Mbox: "hostmaster." + question.Name,
				Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl,
			})
		}
	}
}

func joined(record *dns.TXT) string {
	text := ""
	for _, part := range record.Txt {
		text += part
	}
	return text
}
